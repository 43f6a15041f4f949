/** Chooses a goal: one of four sentences with fields, or words of the operator. */
import { useId, useState } from "preact/hooks";
import type { Goal } from "../../../advisor/search/goal.ts";
import { type GoalForm, goalForms, valuesOf, writtenGoal } from "./goal-forms.ts";
import type { readGoal } from "./goal-reader.ts";

interface GoalPickerProps {
  readonly goal: Goal | null;
  /** The goal in words, as the URL has it. */
  readonly text: string;
  readonly read: typeof readGoal;
  readonly onChoose: (text: string) => void;
}

export function GoalPicker({ goal, text, read, onChoose }: GoalPickerProps) {
  const [problem, setProblem] = useState("");
  const id = useId();
  const choose = (written: string): void => {
    const result = read(written);
    setProblem("problem" in result ? result.problem : "");
    if (!("problem" in result)) onChoose(result.text);
  };
  return (
    <section class="card goals" aria-labelledby={`${id}-title`}>
      <h2 id={`${id}-title`}>Goal</h2>
      {goalForms.map((form) => (
        <GoalRow key={form.kind} {...{ form, goal, onChoose: choose }} name={id} />
      ))}
      <OwnWords key={text} {...{ text, onChoose: choose }} problemId={`${id}-problem`} />
      <p id={`${id}-problem`} class="problem" role="alert">
        {problem}
      </p>
    </section>
  );
}

interface GoalRowProps {
  readonly form: GoalForm;
  readonly goal: Goal | null;
  /** The name of the group of radio buttons. */
  readonly name: string;
  readonly onChoose: (text: string) => void;
}

/** A typed value chooses the goal of its row. */
function GoalRow({ form, goal, name, onChoose }: GoalRowProps) {
  const { kind, parts, labels, defaults } = form;
  const own = goal?.kind === kind ? valuesOf(goal) : null;
  const [typed, setTyped] = useState(own ?? defaults);
  // A goal from the link or in other words replaces what was typed, unless both mean the same.
  const [known, setKnown] = useState(own?.join() ?? "");
  if (own !== null && own.join() !== known) {
    setKnown(own.join());
    setTyped(own);
  }
  const change = (index: number, value: string): void => {
    const values = typed.with(index, value);
    setTyped(values);
    onChoose(writtenGoal(form, values));
  };
  return (
    <div class="goal row">
      <input
        type="radio"
        name={name}
        aria-label={writtenGoal(form, typed)}
        checked={own !== null}
        onChange={() => onChoose(writtenGoal(form, typed))}
      />
      {parts.map((part, index) => (
        <>
          {part}
          {labels[index] !== undefined && (
            <input
              aria-label={labels[index]}
              value={typed[index]}
              size={Math.max(4, typed[index]?.length ?? 0)}
              autocomplete="off"
              inputMode={index === 0 ? "decimal" : "text"}
              onChange={({ currentTarget: { value } }) => change(index, value)}
            />
          )}
        </>
      ))}
    </div>
  );
}

interface OwnWordsProps {
  readonly text: string;
  readonly problemId: string;
  readonly onChoose: (text: string) => void;
}

function OwnWords({ text, problemId, onChoose }: OwnWordsProps) {
  const id = useId();
  const [typed, setTyped] = useState(text);
  return (
    <form
      class="field"
      onSubmit={(event) => {
        event.preventDefault();
        onChoose(typed);
      }}
    >
      <label for={id}>In your own words</label>
      <div class="row own-words">
        <input
          id={id}
          value={typed}
          autocomplete="off"
          aria-describedby={problemId}
          onInput={({ currentTarget: { value } }) => setTyped(value)}
        />
        <button type="submit">Use this goal</button>
      </div>
    </form>
  );
}
