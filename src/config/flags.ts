/** Variables that are on or off; those of the dashboard come as text. */
import type { ConfigProblem } from "../strategies/index.ts";
import { isSet } from "./variables.ts";

/** Off unless it is set. */
export function readFlag(
  variable: string,
  value: unknown,
  report: (problem: ConfigProblem) => void,
): boolean {
  if (value === true || value === "true") return true;
  if (!isSet(value) || value === false || value === "false") return false;
  report({ variable, field: "", value, accepted: "true or false" });
  return false;
}
