/**
 * The recorded run of `npm run bench -- memory`, its plot, and the sentence of `docs/benchmarks/results.md` about it.
 */
import { readFileSync } from "node:fs";
import { areaY, gridY, lineY, ruleY, text as textMark } from "@observablehq/plot";
import { drawFigure } from "../figure.ts";
import { type Figure, type Generated, picture, wrapped } from "../generated.ts";
import { markdownTable, whole } from "../table.ts";
import { boundBytes, consistencies, type Consistency, type HeapStep } from "./isolate.ts";

export interface MemoryStep extends HeapStep {
  /** The number of keys of this consistency so far. */
  readonly keys: number;
}

export interface ConsistencyRun {
  readonly consistency: Consistency;
  readonly steps: readonly MemoryStep[];
  readonly liveBytes: number;
}

export interface MemoryRun {
  readonly measuredOn: string;
  readonly keys: number;
  /** In the order in which the same isolate received the keys. */
  readonly runs: readonly ConsistencyRun[];
}

export const recordedPath = "test/tools/memory/last.json";

export const recordedRun = (): MemoryRun => JSON.parse(readFileSync(recordedPath, "utf8")) as MemoryRun;

export const mostBytesOf = ({ steps }: ConsistencyRun): number => Math.max(...steps.map(({ mostBytes }) => mostBytes));

const megabytes = (bytes: number): number => Math.round(bytes / 1_000_000);

export const memoryTable = ({ runs }: MemoryRun): string =>
  markdownTable(
    ["consistency", "new keys", "live heap at the end, MB", "most with garbage, MB"],
    runs.map((run) => [
      `\`${run.consistency}\``,
      whole(run.steps.at(-1)?.keys ?? 0),
      String(megabytes(run.liveBytes)),
      String(megabytes(mostBytesOf(run))),
    ]),
  );

const title = "Heap of an isolate with 32 busy shards";

function memoryFigure(run: MemoryRun): Figure {
  const points = run.runs.flatMap(({ consistency, steps }) =>
    steps.map(({ keys, mostBytes, leastBytes }) => ({
      keys: keys + consistencies.indexOf(consistency) * run.keys,
      consistency,
      most: mostBytes / 1_000_000,
      least: leastBytes / 1_000_000,
    })),
  );
  const labels = run.runs.map(({ consistency }) => ({
    consistency,
    keys: (consistencies.indexOf(consistency) + 0.5) * run.keys,
  }));
  return drawFigure({
    title,
    subtitle: `Before and after garbage collections, while the isolate receives ${whole(run.keys)} new keys of each consistency. ${run.measuredOn}.`,
    description: `Area chart of the heap over the number of new keys. ${run.runs
      .map(
        (each) =>
          `${each.consistency}: at most ${megabytes(mostBytesOf(each))} MB with garbage, ${megabytes(each.liveBytes)} MB live at the end.`,
      )
      .join(" ")}`,
    panels: ({ colours, text, muted }) => [
      {
        height: 300,
        marginLeft: 60,
        marginTop: 30,
        marginBottom: 44,
        x: { label: "new keys", tickFormat: "~s" },
        y: { label: "MB", domain: [0, 130] },
        color: { domain: [...consistencies], range: [colours.blue, colours.orange, colours.green] },
        marks: [
          gridY(),
          areaY(points, {
            x: "keys",
            y1: "least",
            y2: "most",
            fill: "consistency",
            fillOpacity: 0.35,
          }),
          lineY(points, { x: "keys", y: "most", stroke: "consistency" }),
          ruleY([boundBytes / 1_000_000], { stroke: text, strokeDasharray: "4 3" }),
          ruleY([128], { stroke: muted }),
          textMark(labels, { x: "keys", y: 120, text: "consistency", fill: text }),
        ],
      },
    ],
  });
}

export const memoryDocs = (run: MemoryRun): Generated => ({
  command: "npm run bench -- memory",
  pages: {
    "docs/operate/capacity-and-scale.md": [
      `${picture("memory", title)}\n\n${memoryTable(run)}\n\n${wrapped(
        `Recorded on ${run.measuredOn} with \`npm run bench -- memory\`. The same isolate received the keys of one ` +
          "consistency after the other, with a full deny cache. The dashed line is the bound of 96 MB. V8 lets " +
          "garbage wait, so the heap is larger than its live part.",
      )}`,
    ],
  },
  figures: { "docs/operate/memory": memoryFigure(run) },
});
