/** The fields of the traffic: when requests come, from whom, and what clients do after a denial. */
import { Fragment } from "preact";
import { useId, useState } from "preact/hooks";
import { Select } from "../../app/parts/fields.tsx";
import {
  defaultPattern,
  type FieldName,
  type FieldValues,
  fieldNames,
  fieldText,
  retryKinds,
  type Scenario,
  scenarioFields,
  trafficKinds,
} from "../model/scenario.ts";
import { changeScenario, scenario, useValidity } from "../page-state.ts";
import { LogInput } from "./log-input.tsx";

/** The values with which a kind of traffic starts when it is chosen. */
const firstPattern: Partial<Scenario> = { ...defaultPattern, times: [{ atMs: 0, count: 10, cost: null }] };

export function TrafficFields() {
  const { traffic, keys, retry } = scenario.value;
  const pattern = fieldNames.filter((name) => scenarioFields[name].patterns?.includes(traffic));
  return (
    <fieldset class="card">
      <legend>Traffic</legend>
      <Choice name="traffic" options={trafficKinds} others={firstPattern} />
      <Fragment key={traffic}>
        {pattern.map((name) => (
          <Field key={name} name={name} />
        ))}
      </Fragment>
      {traffic === "log" ? (
        <LogInput />
      ) : (
        <>
          {traffic !== "times" && <Field name="lengthMs" />}
          <Field name="keys" />
          {keys > 1 && <Field name="skew" />}
          <Field name="cost" />
          <Field name="runsMs" />
          <Field name="seed" />
        </>
      )}
      <Choice name="retry" options={retryKinds} />
      {retry === "ignore" && <Field name="pauseMs" />}
      {retry === "jitter" && <Field name="pauseMs" label="Random time up to" />}
      {retry !== "none" && <Field name="attempts" />}
    </fieldset>
  );
}

/** @param others fields that change together with this one */
function changeField<Name extends FieldName>(
  name: Name,
  value: FieldValues[Name],
  others: Partial<Scenario> = {},
): void {
  const changed: FieldValues = { ...scenario.value, ...others };
  changed[name] = value;
  changeScenario(changed);
}

interface NameFieldProps {
  readonly name: "traffic" | "retry";
  readonly options: readonly (readonly [name: string, text: string])[];
  readonly others?: Partial<Scenario>;
}

function Choice({ name, options, others }: NameFieldProps) {
  const field = scenarioFields[name];
  const change = (text: string): void => {
    const value = field.read(text);
    if (value !== null) changeField(name, value, others);
  };
  return (
    <div class="pg-field">
      <Select label={field.label} value={scenario.value[name]} options={options} onChange={change} />
    </div>
  );
}

interface FieldProps<Name> {
  readonly name: Name;
  readonly label?: string;
}

/** A field as text, with a slider over useful values. The last valid value stays while the text has a problem. */
function Field<Name extends FieldName>({ name, label = scenarioFields[name].label }: FieldProps<Name>) {
  const id = useId();
  const field = scenarioFields[name];
  const [text, setText] = useState(fieldText(scenario.value, name));
  const isValid = field.read(text) !== null;
  useValidity(label, isValid);
  const change = (typed: string): void => {
    setText(typed);
    const value = field.read(typed);
    if (value !== null) changeField(name, value);
  };
  return (
    <div class="pg-field">
      <label for={id}>{label}</label>
      <input
        id={id}
        value={text}
        autocomplete="off"
        spellcheck={false}
        aria-invalid={!isValid}
        aria-describedby={`${id}-problem`}
        onInput={(event) => change(event.currentTarget.value)}
      />
      <Slider name={name} label={label} onStep={change} />
      <p id={`${id}-problem`} class="problem" role="alert">
        {!isValid && `Expected ${field.accepted}.`}
      </p>
    </div>
  );
}

interface SliderProps<Name> extends Required<FieldProps<Name>> {
  readonly onStep: (text: string) => void;
}

function Slider<Name extends FieldName>({ name, label, onStep }: SliderProps<Name>) {
  const value: FieldValues[Name] = scenario.value[name];
  const field = scenarioFields[name];
  const steps = field.steps?.(value);
  if (steps === undefined) return null;
  const orderOf = (each: FieldValues[Name]): number => field.order?.(each) ?? Number(each);
  const distances = steps.map((step) => Math.abs(orderOf(step) - orderOf(value)));
  return (
    <input
      type="range"
      aria-label={`${label}, slider`}
      aria-valuetext={field.write(value)}
      min={0}
      max={steps.length - 1}
      value={distances.indexOf(Math.min(...distances))}
      onInput={(event) => {
        const step = steps[Number(event.currentTarget.value)];
        if (step !== undefined) onStep(field.write(step));
      }}
    />
  );
}
