/** Form fields with their labels. Each has a frame, except `Select`, which stands in a row of controls. */
import type { ComponentProps } from "preact";
import { useId } from "preact/hooks";

interface SelectProps {
  readonly label: string;
  readonly value: string;
  /** The values, each as a pair with its text if the text differs. */
  readonly options: readonly (string | readonly [value: string, text: string])[];
  readonly onChange: (value: string) => void;
}

export function Select({ label, value, options, onChange }: SelectProps) {
  const id = useId();
  return (
    <>
      <label for={id}>{label}</label>
      <select id={id} value={value} onChange={({ currentTarget }) => onChange(currentTarget.value)}>
        {options.map((option) => {
          const [own, text] = typeof option === "string" ? [option, option] : option;
          return (
            <option key={own} value={own}>
              {text}
            </option>
          );
        })}
      </select>
    </>
  );
}

export const SelectField = (props: SelectProps) => (
  <div class="field">
    <Select {...props} />
  </div>
);

/** A row of buttons, of which the chosen one is pressed. */
export const PressedButtons = ({ label, value, options, onChange }: PressedButtonsProps) => (
  <div class="row" role="group" aria-label={label}>
    {options.map(([own, text]) => (
      <button key={own} type="button" aria-pressed={own === value} onClick={() => onChange(own)}>
        {text}
      </button>
    ))}
  </div>
);

interface PressedButtonsProps extends Pick<SelectProps, "label" | "onChange"> {
  /** Null while none of them is chosen. */
  readonly value: string | null;
  readonly options: readonly (readonly [value: string, text: string])[];
}

interface InputProps extends Pick<
  ComponentProps<"input">,
  "required" | "maxLength" | "placeholder" | "spellcheck" | "autocomplete"
> {
  readonly label: string;
  readonly isSearch?: boolean;
  readonly value: string;
  readonly onInput: (value: string) => void;
}

export function Input({ label, onInput, isSearch = false, ...attributes }: InputProps) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        id={id}
        {...(isSearch ? { type: "search" as const } : { type: "text" as const })}
        {...attributes}
        onInput={({ currentTarget }) => onInput(currentTarget.value)}
      />
    </div>
  );
}

interface CheckboxProps {
  readonly label: string;
  readonly isChecked: boolean;
  readonly onChange: (isChecked: boolean) => void;
}

export const Checkbox = ({ label, isChecked, onChange }: CheckboxProps) => (
  <label class="row choice">
    <input type="checkbox" checked={isChecked} onChange={({ currentTarget: { checked } }) => onChange(checked)} />
    {label}
  </label>
);

interface TextAreaProps {
  readonly label: string;
  readonly rows: number;
  readonly value: string;
  readonly help: string;
  /** Shown in place of the help; "" for none. */
  readonly problem: string;
  readonly onInput: (value: string) => void;
}

/** A field that must not stay empty. */
export function TextArea({ label, rows, value, help, problem, onInput }: TextAreaProps) {
  const id = useId();
  const isInvalid = problem !== "";
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <textarea
        id={id}
        rows={rows}
        value={value}
        required
        spellcheck={false}
        aria-describedby={`${id}-help`}
        aria-invalid={isInvalid}
        onInput={({ currentTarget }) => onInput(currentTarget.value)}
      />
      <p id={`${id}-help`} class={isInvalid ? "problem" : "hint"}>
        {isInvalid ? problem : help}
      </p>
    </div>
  );
}
