/** The variable `SAMPLE`: the share of keys whose traffic is recorded. */
import { isSet, type ReportProblem } from "./variables.ts";

const defaultOneKeyIn = 64;
const greatestOneKeyIn = 4_096;

/** @returns n for `1/n`; null for `off` */
export function readSample(value: unknown, report: ReportProblem): number | null {
  if (!isSet(value)) return defaultOneKeyIn;
  if (value === "off") return null;
  const [, digits] = /^1\/([1-9]\d{0,3})$/.exec(typeof value === "string" ? value : "") ?? [];
  const oneKeyIn = Number(digits);
  if (oneKeyIn <= greatestOneKeyIn) return oneKeyIn;
  const accepted = `a share of the keys such as "1/${defaultOneKeyIn}", from "1/1" to "1/${greatestOneKeyIn}", or "off"`;
  report({ variable: "SAMPLE", field: "", value, accepted });
  return defaultOneKeyIn;
}
