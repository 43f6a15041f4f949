/** A field of the scenario as text, with a slider over useful values. The last valid value stays while the text has a problem. */
import { useId, useLayoutEffect, useState } from "preact/hooks";
import { invalidFields } from "../page-state.ts";
import type { ScenarioField } from "../model/scenario-fields.ts";

interface FieldProps<Value> {
  readonly label: string;
  readonly field: ScenarioField<Value>;
  readonly value: Value;
  readonly onChange: (value: Value) => void;
  /** The values of the slider, in order; without them there is no slider. */
  readonly steps?: readonly Value[];
  /** Orders values, to find the step of the slider that is nearest to the current one. */
  readonly order?: (value: Value) => number;
}

/** Marks the results as those of earlier values while the text of a field has a problem. */
export function useValidity(label: string, isValid: boolean): void {
  useLayoutEffect(() => {
    if (isValid) return undefined;
    invalidFields.value = [...invalidFields.value, label];
    return () => {
      invalidFields.value = invalidFields.value.filter((each) => each !== label);
    };
  }, [label, isValid]);
}

export function Field<Value>(props: FieldProps<Value>) {
  const { label, field, value, onChange, steps } = props;
  const id = useId();
  const [text, setText] = useState(field.write(value));
  const read = field.read(text);
  useValidity(label, read !== null);
  const change = (typed: string): void => {
    setText(typed);
    const next = field.read(typed);
    if (next !== null) onChange(next);
  };
  return (
    <div class="pg-field">
      <label for={id}>{label}</label>
      <input
        id={id}
        value={text}
        autocomplete="off"
        spellcheck={false}
        aria-invalid={read === null}
        aria-describedby={`${id}-problem`}
        onInput={(event) => change(event.currentTarget.value)}
      />
      {steps !== undefined && <Slider {...props} steps={steps} onStep={change} />}
      <p id={`${id}-problem`} class="problem" role="alert">
        {read === null && `Expected ${field.accepted}.`}
      </p>
    </div>
  );
}

function Slider<Value>({
  label,
  field,
  value,
  steps,
  order = Number,
  onStep,
}: FieldProps<Value> & {
  readonly steps: readonly Value[];
  readonly onStep: (text: string) => void;
}) {
  const distance = (step: Value): number => Math.abs(order(step) - order(value));
  const nearest = steps.reduce(
    (best, step, index) => (distance(step) < distance(steps[best] ?? step) ? index : best),
    0,
  );
  return (
    <input
      type="range"
      aria-label={`${label}, slider`}
      aria-valuetext={field.write(value)}
      min={0}
      max={steps.length - 1}
      value={nearest}
      onInput={(event) => {
        const step = steps[Number(event.currentTarget.value)];
        if (step !== undefined) onStep(field.write(step));
      }}
    />
  );
}

interface PlaygroundChoiceProps<Name extends string> {
  readonly label: string;
  readonly value: Name;
  /** Texts by the names of the choices. */
  readonly choices: Readonly<Record<Name, string>>;
  readonly onChange: (name: Name) => void;
}

export function Choice<Name extends string>({ label, value, choices, onChange }: PlaygroundChoiceProps<Name>) {
  const id = useId();
  const names = Object.keys(choices);
  const isName = (name: string): name is Name => names.includes(name);
  return (
    <div class="pg-field">
      <label for={id}>{label}</label>
      <select
        id={id}
        value={value}
        onChange={({ currentTarget }) => isName(currentTarget.value) && onChange(currentTarget.value)}
      >
        {names.map((name) => (
          <option key={name} value={name}>
            {isName(name) && choices[name]}
          </option>
        ))}
      </select>
    </div>
  );
}
