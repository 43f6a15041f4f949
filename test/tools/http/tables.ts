/** The tables and sentences of a run, for the terminal and the results page. */
import { markdownTable, type Row, whole } from "../table.ts";
import type { Figures, Latency, RecordedRun } from "./record.ts";
import type { Spread } from "./statistics.ts";
import type { Verdict } from "./verdicts.ts";

const header: Row = [
  "contestant",
  "requests/s",
  "÷ floor (quartiles)",
  "CPU, µs",
  "object calls per 1,000",
  "p50 / p99 alone, ms",
  "p50 / p99 loaded, ms",
];

export function figuresTable({ figures, skipped, void: voided }: RecordedRun): string {
  const groups = [...new Set([...figures, ...skipped, ...voided].map(({ group }) => group))];
  const blank = header.slice(2).map(() => "");
  const rows = groups.flatMap((group): Row[] => [
    [`**${group}**`, "", ...blank],
    ...figures.filter((of) => of.group === group).map(rowOf),
    ...skipped.filter((of) => of.group === group).map(({ title }): Row => [title, "not measured", ...blank]),
    ...voided.filter((of) => of.group === group).map(({ title }): Row => [title, "void", ...blank]),
  ]);
  return markdownTable(header, rows);
}

function rowOf(figures: Figures): Row {
  const { title, perSecond, ofFloor, cpuUs, callsPerThousand, alone, loaded } = figures;
  return [
    title,
    whole(perSecond.median),
    ofFloor === null ? "" : spread(ofFloor),
    cpuUs === null ? "" : whole(cpuUs),
    callsPerThousand === null ? "" : whole(callsPerThousand),
    alone === null ? "" : latency(alone),
    latency(loaded),
  ];
}

const spread = ({ median, lower, upper }: Spread): string =>
  `${median.toFixed(2)} (${lower.toFixed(2)} – ${upper.toFixed(2)})`;

const latency = ({ p50Ms, p99Ms }: Latency): string => `${p50Ms.toFixed(2)} / ${p99Ms.toFixed(2)}`;

/** The goals that were measured. */
export function goalsTable({ goals }: RecordedRun): string {
  const rows = goals.flatMap((goal): Row[] => {
    const { title, ratio, isMet, byCpu } = goal;
    if (ratio === null) return [];
    const verdict = isMet === true ? "met" : "missed";
    return [[title, boundOf(goal), spread(ratio), byCpu?.toFixed(2) ?? "", verdict]];
  });
  return markdownTable(["goal", "bound", "median ratio (quartiles)", "by CPU", "verdict"], rows);
}

const boundOf = ({ load, bound }: Verdict): string =>
  `${load === "loaded" ? "at least" : "at most"} ${bound.toFixed(2)}`;

/** How the run was measured. */
export function setting({ measuredOn, command, machine, settings }: RecordedRun): string {
  const { processor, cores, loadBefore, node, workerd, generator, redis, packages } = machine;
  const { rounds, seconds, connections, isQuick } = settings;
  const versions = Object.entries(packages).map(([name, version]) => `${name} ${version}`);
  const busy = loadBefore === null ? "" : ` (load before the run ${loadBefore.toFixed(1)})`;
  return [
    `\`${command}\`, ${measuredOn}: ${processor}, ${cores} cores${busy}; workerd ${workerd}, Node ${node}, ${generator}`,
    ...(redis === null ? [] : [`, Redis ${redis}`]),
    `; ${versions.join(", ")}. Medians of ${rounds} ${rounds === 1 ? "round" : "rounds"} with turns of ${seconds} s, ${connections} connections.`,
    ...(isQuick ? [" Quick run: it only shows that everything works; its figures are not meaningful."] : []),
  ].join("");
}
