/** The recorded run, and the parts of the documentation that show the run. */
import { readFileSync } from "node:fs";
import { type Generated, wrapped } from "../generated.ts";
import { comparisonPage } from "../peers/page.ts";
import { speedTable } from "../peers/speed.ts";
import { figureOf } from "./plot.ts";
import type { RecordedRun } from "./record.ts";
import { goalsText, peersText, readmeText } from "./sentences.ts";
import { figuresTable, setting } from "./tables.ts";

export const recordedPath = "test/tools/http/last.json";

export const recordedRun = (): RecordedRun => JSON.parse(readFileSync(recordedPath, "utf8")) as RecordedRun;

export const httpDocs = (run: RecordedRun): Generated => ({
  command: "npm run bench -- http",
  pages: {
    "README.md": [wrapped(readmeText(run))],
    "docs/benchmarks/results.md": [
      wrapped(peersText(run)),
      wrapped(goalsText(run)),
      figuresTable(run),
      wrapped(setting(run)),
    ],
    [comparisonPage]: [speedTable(run)],
  },
  figures: { "docs/benchmarks/http": figureOf(run) },
});
