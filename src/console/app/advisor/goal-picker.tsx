/** Chooses a goal: one of four sentences with fields, or words of the operator. The reader of goals checks what is typed. */
import { useId, useState } from "preact/hooks";
import type { Goal } from "../../../advisor/search/goal.ts";
import type { readGoal } from "./goal-reader.ts";
import { unitNames, wholeUnits } from "../parts/text.ts";

/** `parts` are the texts between the fields, `labels` the accessible names of the fields. */
interface GoalForm extends Readonly<Record<"parts" | "labels" | "defaults", readonly string[]>> {
  readonly kind: Goal["kind"];
}

export const goalForms: readonly GoalForm[] = [
  {
    kind: "denied-requests",
    parts: ["Deny at most", "% of requests"],
    labels: ["Share of requests in percent"],
    defaults: ["0.1"],
  },
  { kind: "denied-keys", parts: ["Deny at most 1 key in", ""], labels: ["One key in this many"], defaults: ["1000"] },
  {
    kind: "key-rate",
    parts: ["Never let one key exceed", "requests in", ""],
    labels: ["Requests of one key", "Window of one key"],
    defaults: ["20", "1 second"],
  },
  {
    kind: "origin-rate",
    parts: ["Protect the origin at", "requests per second"],
    labels: ["Requests per second at the origin"],
    defaults: ["500"],
  },
];

export const writtenGoal = ({ parts }: GoalForm, values: readonly string[]): string =>
  parts
    .flatMap((part, index) => [part, values[index] ?? ""])
    .filter((text) => text.trim() !== "")
    .join(" ");

const numberOf = (value: number): string => String(Number(value.toPrecision(12)));

function windowOf(windowMs: number): string {
  const [count, unit] = wholeUnits(windowMs);
  return `${count} ${unitNames[unit]}${count > 1 && unit !== "ms" ? "s" : ""}`;
}

export function valuesOf(goal: Goal): readonly string[] {
  switch (goal.kind) {
    case "denied-requests":
      return [numberOf(100 * goal.mostShare)];
    case "denied-keys":
      return [numberOf(1 / goal.mostShare)];
    case "key-rate":
      return [String(goal.most), windowOf(goal.windowMs)];
    case "origin-rate":
      return [String(goal.mostPerSecond)];
    default:
      return goal satisfies never;
  }
}

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
  readonly name: string;
  readonly onChoose: (text: string) => void;
}

/** A typed value chooses the goal of its row. */
function GoalRow({ form, goal, name, onChoose }: GoalRowProps) {
  const { kind, parts, labels, defaults } = form;
  const own = goal?.kind === kind ? valuesOf(goal) : null;
  const [typed, setTyped] = useState(own ?? defaults);
  // A goal from the URL replaces what was typed in the row, unless both mean the same.
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
