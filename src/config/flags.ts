/** Variables that are on or off; those of the dashboard come as text. */
import { isSet, type ReportProblem } from "./variables.ts";

/** Off unless it is set. */
export function readFlag(variable: string, value: unknown, report: ReportProblem): boolean {
  if (value === true || value === "true") return true;
  if (!isSet(value) || value === false || value === "false") return false;
  report({ variable, field: "", value, accepted: "true or false" });
  return false;
}
