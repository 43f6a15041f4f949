/** The recorded run, and the tables and plots of `docs/benchmarks/results.md` that show it. */
import { readFileSync } from "node:fs";
import { type Generated, wrapped } from "../generated.ts";
import { peersText, peersTable } from "./peers.ts";
import { figuresOfRun } from "./plot.ts";
import type { RecordedRun } from "./record.ts";
import { figuresTable, setting, targetsSentence, targetsTable } from "./tables.ts";

export const recordedPath = "test/tools/http/last.json";

export const recordedRun = (): RecordedRun =>
  JSON.parse(readFileSync(recordedPath, "utf8")) as RecordedRun;

export function httpDocs(run: RecordedRun): Generated {
  const figures = Object.entries(figuresOfRun(run)).map(
    ([name, figure]) => [`docs/benchmarks/${name}`, figure] as const,
  );
  return {
    command: "npm run bench -- http",
    pages: {
      "docs/benchmarks/results.md": [
        wrapped(peersText(run)),
        peersTable(run),
        wrapped(setting(run)),
        `${targetsSentence(run)}\n\n${targetsTable(run)}`,
        figuresTable(run),
      ],
    },
    figures: Object.fromEntries(figures),
  };
}
