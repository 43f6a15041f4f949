/** The four goals as sentences with fields. The reader of goals checks what is typed. */
import type { Goal } from "../../../advisor/search/goal.ts";

export interface GoalForm {
  readonly kind: Goal["kind"];
  /** Texts between the fields. */
  readonly parts: readonly string[];
  /** The accessible names of the fields. */
  readonly labels: readonly string[];
  readonly defaults: readonly string[];
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

/** The sentence of a form with its fields. */
export const writtenGoal = ({ parts }: GoalForm, values: readonly string[]): string =>
  parts
    .flatMap((part, index) => [part, values[index] ?? ""])
    .filter((text) => text.trim() !== "")
    .join(" ");

const numberOf = (value: number): string => String(Number(value.toPrecision(12)));

const units = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
  ["second", 1_000],
  ["ms", 1],
] as const;

function windowOf(windowMs: number): string {
  const [name, lengthMs] = units.find(([, each]) => windowMs % each === 0) ?? ["ms", 1];
  const count = windowMs / lengthMs;
  return `${count} ${name}${count > 1 && name !== "ms" ? "s" : ""}`;
}

/** The fields of the form of a goal. */
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
