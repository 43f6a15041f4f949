/** The tables of a run, for the terminal and the results page. */
import { markdownTable, type Row, whole } from "../table.ts";
import type { Figures, Latency, RecordedRun } from "./record.ts";
import type { Spread } from "./statistics.ts";

const header: Row = [
  "contestant",
  "requests/s (lowest – highest)",
  "÷ plain",
  "÷ no-op call",
  "p50 / p99 alone, ms",
  "p50 / p99 loaded, ms",
];

export function figuresTable({ figures, skipped, void: voided }: RecordedRun): string {
  const groups = [...new Set([...figures, ...skipped, ...voided].map(({ group }) => group))];
  const none = ["", "", "", "", ""];
  const rows = groups.flatMap((group): Row[] => [
    [`**${group}**`, ...none],
    ...figures.filter((of) => of.group === group).map(rowOf),
    ...skipped
      .filter((of) => of.group === group)
      .map(({ title }): Row => [title, "not measured", "", "", "", ""]),
    ...voided
      .filter((of) => of.group === group)
      .map(({ title }): Row => [title, "void", "", "", "", ""]),
  ]);
  return markdownTable(header, rows);
}

function rowOf({ title, perSecond, ofPlain, ofNoop, alone, loaded }: Figures): Row {
  return [
    title,
    `${whole(perSecond.median)} (${whole(perSecond.least)} – ${whole(perSecond.most)})`,
    ratio(ofPlain),
    ratio(ofNoop),
    latency(alone),
    latency(loaded),
  ];
}

const ratio = (spread: Spread | null): string => (spread === null ? "" : spread.median.toFixed(2));

const latency = ({ p50Ms, p99Ms }: Latency): string =>
  `${p50Ms.median.toFixed(2)} / ${p99Ms.median.toFixed(2)}`;

const targetsHeader: Row = ["target", "bound", "median (lowest – highest)", "verdict"];

export function targetsTable({ targets }: RecordedRun): string {
  const rows = targets.map(({ title, by, bound, ratio: reached, isMet }): Row => {
    const boundText = by === "requests" ? `at least ${bound}` : `at most ${bound}`;
    if (reached === null) return [title, boundText, "", "not measured"];
    const { median, least, most } = reached;
    return [
      title,
      boundText,
      `${median.toFixed(2)} (${least.toFixed(2)} – ${most.toFixed(2)})`,
      isMet === true ? "met" : "missed",
    ];
  });
  return markdownTable(targetsHeader, rows);
}

/** How many targets are met. */
export function targetsSentence({ targets }: RecordedRun): string {
  const judged = targets.filter(({ isMet }) => isMet !== null);
  const met = judged.filter(({ isMet }) => isMet === true);
  return `Headgate meets ${met.length} of ${judged.length} targets and misses ${judged.length - met.length}.`;
}

/** One or two sentences about how the run was measured. */
export function setting({ measuredOn, command, machine, settings }: RecordedRun): string {
  const { processor, cores, loadBefore, node, workerd, generator, redis, packages } = machine;
  const { rounds, seconds, connections, isQuick } = settings;
  const versions = Object.entries(packages).map(([name, version]) => `${name} ${version}`);
  const busy = loadBefore === null ? "" : ` (load before the run ${loadBefore.toFixed(1)})`;
  return [
    `\`${command}\`, ${measuredOn}: ${processor}, ${cores} cores${busy}; workerd ${workerd}, Node ${node}, ${generator}`,
    ...(redis === null ? [] : [`, Redis ${redis}`]),
    `; ${versions.join(", ")}. Medians of ${rounds} ${rounds === 1 ? "round" : "rounds"} of ${seconds} s each, ${connections} connections.`,
    ...(isQuick
      ? [" Quick run: it only shows that everything works; its figures are not meaningful."]
      : []),
  ].join("");
}
