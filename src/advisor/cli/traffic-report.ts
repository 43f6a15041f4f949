/** Prints a report as text or as JSON, and writes its plot. */
import { writeFileSync } from "node:fs";
import { CommandError, messageOf } from "../../cli/command.ts";

export interface Report {
  readonly lines: () => readonly string[];
  /** For `--json`. */
  readonly facts: () => object;
  readonly svg: () => Promise<string>;
}

interface ReportValues {
  readonly json?: boolean | undefined;
  readonly svg?: string | undefined;
}

/** @throws CommandError when the plot cannot be written */
export async function printReport({ json, svg }: ReportValues, report: Report): Promise<void> {
  // A reader such as head may close the pipe before the end.
  process.stdout.on("error", (error) => {
    if (Reflect.get(error, "code") !== "EPIPE") throw error;
  });
  console.log(json === true ? JSON.stringify(report.facts(), null, 2) : report.lines().join("\n"));
  if (svg === undefined) return;
  const text = await report.svg();
  try {
    writeFileSync(svg, text);
  } catch (error) {
    throw new CommandError(`--svg: expected a file that can be written, got "${svg}": ${messageOf(error)}`);
  }
  if (json !== true) console.log(`\nThe plot is in ${svg}.`);
}
