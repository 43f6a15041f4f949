/** The sentences about a run. They must be true for any figures. */
import { whole } from "../table.ts";
import type { Figures, RecordedRun } from "./record.ts";
import type { Verdict } from "./verdicts.ts";

const peers = [
  ["store", "`hono-rate-limiter` with a Durable Object"],
  ["binding", "the rate limiting binding that Miniflare emulates"],
  ["redis", "`rate-limiter-flexible` on Node with Redis"],
  ["upstash", "Upstash's sliding window on Node with Redis"],
] as const;

/** One sentence with the ratios of medians. */
export function peersText({ figures }: RecordedRun): string {
  const rateOf = (id: string): number | undefined => figures.find((of: Figures) => of.id === id)?.perSecond.median;
  const strict = rateOf("check");
  const compared = peers.flatMap(([id, name]) => {
    const rate = rateOf(id);
    return strict === undefined || rate === undefined ? [] : [`${(strict / rate).toFixed(2)} times as many as ${name}`];
  });
  if (strict === undefined || compared.length === 0) return "";
  return `With one key, Headgate's strict \`/check\` serves ${whole(strict)} requests per second. That is ${listed(compared)}.`;
}

/** The speed of an exact decision, in three lines for the README. The page of results has all figures and goals. */
export function readmeText({ figures, goals, machine, settings }: RecordedRun): string {
  const rateOf = (id: string): string => {
    const median = figures.find((of) => of.id === id)?.perSecond.median;
    return median === undefined ? "no" : whole(median);
  };
  const ratioOf = (of: string, to: string): string =>
    goals.find((goal) => goal.of === of && goal.to === to)?.ratio?.median.toFixed(2) ?? "not measured";
  return `Exact decisions on one key have ${ratioOf("check", "noop")} times the rate of a Durable Object call that does nothing, and ${ratioOf("check", "store")} times that of \`hono-rate-limiter\`: ${rateOf("check")} per second on ${machine.cores} cores with ${settings.connections} connections, and ${rateOf("check-denied")} denials. The [results](docs/benchmarks/results.md) compare other limiters, and judge each goal.`;
}

/** States how many goals are met, and lists the missed goals with their ratios. */
export function goalsText({ goals }: RecordedRun): string {
  const missed = goals.filter(({ isMet }) => isMet === false);
  const met = `${metText(goals)}.`;
  return missed.length === 0 ? met : `${met} It misses: ${missed.map(missedText).join("; ")}.`;
}

function metText(goals: readonly Verdict[]): string {
  const judged = goals.filter(({ isMet }) => isMet !== null);
  const met = judged.filter(({ isMet }) => isMet === true);
  return `Headgate meets ${met.length} of ${judged.length} goals`;
}

const missedText = ({ title, load, bound, ratio }: Verdict): string =>
  `${title}, ${ratio?.median.toFixed(2)} (goal: at ${load === "loaded" ? "least" : "most"} ${bound.toFixed(2)})`;

const listed = (texts: readonly string[]): string =>
  [texts.slice(0, -1).join(", "), texts.at(-1)].filter((text) => text !== "").join(" and ");
