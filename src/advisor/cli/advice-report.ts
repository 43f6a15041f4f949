/** The report of `npm run advise`: the candidates, the recommendation, and the policy as TOML. */
import type { Advice, Candidate, Estimate, Goal } from "../search/advice.ts";
import { goalText } from "../search/goal.ts";
import type { CheckedAdvice } from "../search/second-half.ts";
import { leastActive } from "../search/trial.ts";
import { waitText } from "../../strategies/index.ts";
import { rateText } from "./limit-sets.ts";
import { policyToml } from "./policy-toml.ts";
import { countText, fittedText, idLength, partText, percentText, tableLines, wrappedLines } from "./report-text.ts";
import { halfFacts, secondHalfLines } from "./second-half-report.ts";
import { type ReadTraffic, requestsOfKeys } from "./traffic.ts";

type AdvisedTraffic = Pick<ReadTraffic, "lines" | "facts" | "keyParts" | "keyFields" | "filter">;

/** @param name of the policy in TOML */
export function adviceLines(traffic: AdvisedTraffic, checked: CheckedAdvice, name: string): string[] {
  const { advice } = checked;
  const { goal, candidates, notes, recommendation } = advice;
  const check = secondHalfLines(checked);
  const chosen = chosenOf(advice);
  return [
    ...traffic.lines,
    "",
    ...wrappedLines(`Goal: ${goalText(goal)}`),
    ...(candidates.length === 0 ? [] : ["", ...candidateLines(checked, chosen)]),
    "",
    ...wrappedLines(`${headings[recommendation.kind]}: ${recommendation.reason}`),
    ...(check.length === 0 ? [] : ["", ...check]),
    ...notes.flatMap((note) => ["", ...wrappedLines(note)]),
    ...outlierLines(checked, chosen),
    ...tomlLines(traffic, advice, name),
  ];
}

const headings = {
  recommended: "Recommended",
  global: "Recommended",
  unneeded: "No limit needed",
  wait: "Too little data",
} as const;

/** The recommended candidate. */
function chosenOf({ candidates, global, recommendation }: Advice): Candidate | null {
  if (recommendation.kind === "global") return global;
  return recommendation.kind === "recommended" ? (candidates[recommendation.candidate] ?? null) : null;
}

const right = (heading: string) => ({ heading, align: "right" }) as const;

const candidateColumns = [
  { heading: "limit" },
  right("burst"),
  right("% of requests"),
  right("% of keys"),
  right("% of active keys"),
  right("worst burst/s"),
  { heading: "goal" },
];

/** A table for all strategies, with a line for each strategy between its rows. */
function candidateLines({ advice, chosenFrom, secondHalf }: CheckedAdvice, chosen: Candidate | null): string[] {
  const { candidates, global, goal } = advice;
  const where = secondHalf === null ? "" : ` in the first half of the log (${requestsOfKeys(chosenFrom)})`;
  const byStrategy: (readonly [string, readonly Candidate[]])[] = [
    ...(global === null ? [] : [['one limit for all keys, key = ["global"]', [global]] as const]),
    ...Map.groupBy(candidates, ({ strategy }) => strategy),
  ];
  const rows = byStrategy.flatMap(([, own]) => own.map((each) => candidateRow(each, chosen)));
  const [heading = "", ...lines] = tableLines(candidateColumns, rows);
  const isMet = global !== null || candidates.some(({ meetsGoal }) => meetsGoal);
  return [
    ...wrappedLines(`Candidates: what they deny${where}, with 95 % confidence in parentheses`),
    heading,
    ...byStrategy.flatMap(([strategy, own]) => [strategy, ...lines.splice(0, own.length)]),
    "",
    ...tableNotes(candidates, chosen, goal).flatMap((note) => wrappedLines(note)),
    ...(isMet ? [] : wrappedLines(`No candidate is known to ${goalText(goal)}.`)),
  ];
}

function tableNotes(candidates: readonly Candidate[], chosen: Candidate | null, goal: Goal): string[] {
  const isDoubtful =
    "mostShare" in goal && candidates.some(({ result, meetsGoal }) => result.denied === 0 && !meetsGoal);
  return [
    `Active keys sent at least ${leastActive} requests.`,
    `met: ${goal.kind === "key-rate" ? "the bound of the strategy ensures the goal" : "the whole interval meets the goal"}.${chosen === null ? "" : " <-: the candidate that is named below."}`,
    ...(isDoubtful
      ? [
          "A limit that denies nothing here may still not be met: its interval allows for one more key, like those that the next stricter limit denies.",
        ]
      : []),
  ];
}

function candidateRow(candidate: Candidate, chosen: Candidate | null): string[] {
  const { limits, deniedShare, deniedKeyShare, deniedActiveKeyShare, worstBurst, meetsGoal } = candidate;
  const bursts = limits.map((limit): unknown => Reflect.get(limit, "burst"));
  return [
    limits.map(rateText).join("; "),
    bursts.map((burst) => (typeof burst === "number" ? countText(burst) : "")).join("; "),
    estimateText(deniedShare, (share) => shortText(share * 100)),
    estimateText(deniedKeyShare, (share) => shortText(share * 100)),
    deniedActiveKeyShare === null ? "" : estimateText(deniedActiveKeyShare, (share) => shortText(share * 100)),
    estimateText(worstBurst, (burst) => countText(Math.round(burst))),
    `${meetsGoal ? "met" : ""}${candidate === chosen ? " <-" : ""}`,
  ];
}

const estimateText = ({ value, low, high }: Estimate, textOf: (value: number) => string): string =>
  `${textOf(value)} (${textOf(low)}-${textOf(high)})`;

/** Two digits; small values are below a thousandth. */
const shortText = (percent: number): string =>
  percent > 0 && percent < 0.001 ? "<0.001" : String(Number(percent.toPrecision(2)));

const outlierColumns = [
  { heading: "key" },
  right("requests"),
  right("of all"),
  right("denied"),
  right("longest denial"),
];

function outlierLines({ advice: { outliers }, secondHalf }: CheckedAdvice, chosen: Candidate | null): string[] {
  if (chosen === null || outliers.length === 0) return [];
  const rows = outliers.map(({ key, requests, shareOfRequests, denied, longestDeniedMs }) => [
    fittedText(key, idLength),
    countText(requests),
    percentText(shareOfRequests),
    partText(denied, requests),
    longestDeniedMs === 0 ? "" : waitText(Math.round(longestDeniedMs)),
  ]);
  const where = secondHalf === null ? "" : " in the first half";
  return ["", `Keys that it would deny most${where}`, ...tableLines(outlierColumns, rows)];
}

function tomlLines(traffic: AdvisedTraffic, advice: Advice, name: string): string[] {
  const chosen = chosenOf(advice);
  if (chosen === null) return [];
  return [
    "",
    advice.recommendation.kind === "global"
      ? "In wrangler.toml, below [vars], beside the policies that limit each key:"
      : "In wrangler.toml, below [vars], in place of a policy with this name:",
    "",
    ...tomlOf(traffic, advice, name),
  ];
}

function tomlOf(traffic: AdvisedTraffic, advice: Advice, name: string): string[] {
  const chosen = chosenOf(advice);
  if (chosen === null) return [];
  const { written, strategy } = chosen;
  const { filter } = traffic;
  const { keyParts, keyFields } =
    advice.recommendation.kind === "global" ? { keyParts: ["global"], keyFields: [] } : traffic;
  return policyToml({ name, keyParts, keyFields, filter, written, strategy });
}

/** The report for programs. */
export function adviceFacts(traffic: AdvisedTraffic, checked: CheckedAdvice, name: string): object {
  const { advice } = checked;
  const { goal, candidates, global, notes, recommendation, outliers } = advice;
  const chosen = chosenOf(advice);
  return {
    traffic: traffic.facts,
    ...halfFacts(checked),
    goal,
    candidates: candidates.map(candidateFacts),
    global: global === null ? null : candidateFacts(global),
    recommendation,
    notes,
    outliers,
    toml: chosen === null ? null : `${tomlOf(traffic, advice, name).join("\n")}\n`,
  };
}

const candidateFacts = ({ result, limits: _limits, ...candidate }: Candidate): object => ({
  ...candidate,
  denied: result.denied,
  deniedKeys: result.deniedKeys,
  longestDeniedMs: result.longestDeniedMs,
});
