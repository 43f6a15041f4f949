/**
 * The report of `npm run advise`: the candidates, the recommendation, the check on the second half of a log, and the policy as
 * lines of `wrangler.toml`.
 */
import type { LogFilter } from "./input-options.ts";
import { type ReadTraffic, requestsOfKeys } from "./input.ts";
import { rateText, windowText } from "./limit-sets.ts";
import {
  clockText,
  countOf,
  countText,
  deniedKeyTable,
  partText,
  right,
  tableLines,
  wrappedLines,
} from "./report-text.ts";
import type { RequestPattern } from "../log/log-filter.ts";
import { type Advice, type Candidate, type Estimate, type Goal, goalText } from "../search/goal.ts";
import type { CheckedAdvice, WholeCause } from "../search/second-half.ts";
import { leastActive } from "../search/trial.ts";
import { CommandError } from "../../cli/command.ts";
import { token } from "../../policy/key.ts";
import { acceptedName, type LimitInput, namePattern } from "../../strategies/index.ts";

interface TomlPolicy extends Pick<ReadTraffic, "keyParts" | "keyFields">, Pick<Candidate, "written" | "strategy"> {
  readonly name: string;
  /** Which requests of the log were read. Default: all. */
  readonly filter?: LogFilter | null;
}

/** @throws CommandError when the name is not one of a policy */
export function policyName(name: string): string {
  if (namePattern.test(name)) return name;
  throw new CommandError(`--name: expected ${acceptedName}, got "${name}"`);
}

export function policyToml(policy: TomlPolicy): string[] {
  const { name, keyParts, keyFields, filter = null, written, strategy } = policy;
  const parts = keyParts.map((part) => (keyFields.includes(part) ? headerOf(part) : part));
  return [
    ...keyFields.map(
      (field) =>
        `# "${plain(field)}" is a field of the log and no key part: replace "${headerOf(field)}" with the part that has it.`,
    ),
    ...filterComments(filter),
    "[[vars.POLICIES]]",
    `name = ${JSON.stringify(name)}`,
    `key = ${JSON.stringify(parts)}`,
    ...matchToml(filter?.match ?? []),
    `strategy = ${JSON.stringify(strategy)}`,
    `limits = ${limitsToml(written)}`,
  ];
}

/** TOML comments about the filter of the log, which a policy cannot express. */
function filterComments(filter: LogFilter | null): string[] {
  const match = filter?.match ?? [];
  const texts = match.map(({ text }) => plain(text)).join(" or ");
  return [
    ...(match.length > 1 ? [`# Only the requests ${texts} were read: write a policy for each.`] : []),
    ...(filter?.status == null
      ? []
      : [`# Only the status ${filter.status} was read: this policy counts all requests.`]),
  ];
}

function matchToml(match: readonly RequestPattern[]): string[] {
  const [pattern, ...others] = match;
  if (pattern === undefined || others.length > 0) return [];
  const { methods, text } = pattern;
  const fields = [
    ...(methods === null ? [] : [`methods = ${JSON.stringify(methods)}`]),
    ...(pattern.path === null ? [] : [`path = ${JSON.stringify(text.split(/\s+/).at(-1))}`]),
  ];
  return [`match = { ${fields.join(", ")} }`];
}

const plain = (field: string): string => field.replaceAll(/[^\x20-\x7e]/g, "?");

/** The header that the name of a field suggests, such as x-api-key for http_x_api_key. */
function headerOf(field: string): string {
  const header = field
    .toLowerCase()
    .replace(/^(?:http_|(?:request\.)?headers\.|requestheaders\.)/, "")
    .replaceAll(/[^a-z0-9]+/g, "-");
  return `header:${token.test(header) ? header : "x-key"}`;
}

function limitsToml(written: readonly LimitInput[]): string {
  if (written.every(isPlain)) {
    return JSON.stringify(written.map(({ limit, window }) => `${limit}/${windowText(window)}`).join("; "));
  }
  const tables = written.map(({ strategy: _strategy, ...limit }) => {
    const fields = Object.entries(limit).filter(([, value]) => value !== undefined);
    return `{ ${fields.map(([field, value]) => `${field} = ${JSON.stringify(value)}`).join(", ")} }`;
  });
  return `[${tables.join(", ")}]`;
}

const isPlain = ({ limit: _limit, window: _window, strategy: _strategy, ...rest }: LimitInput) =>
  Object.values(rest).every((value) => value === undefined);

const causes: Record<WholeCause, string> = {
  "too-short": "a check on its second half needs at least an hour and 500 requests in each half.",
  wait: "its first half alone does not show that a limit for each key meets the goal, so no half is left for a check.",
  global:
    "its first half alone leads to one limit for all keys, and only limits for each key are checked on the second half.",
  unneeded: "its first half alone needs no limit.",
};

/** Empty when there is nothing to check: no limit is chosen, no check was wanted, or the strategy ensures the goal. */
function secondHalfLines({ advice, secondHalf, wholeCause }: CheckedAdvice): string[] {
  if (secondHalf === null) {
    const { goal, recommendation } = advice;
    const isChosen = recommendation.kind === "recommended" || recommendation.kind === "global";
    return wholeCause === null || !isChosen || goal.kind === "key-rate"
      ? []
      : wrappedLines(`Chosen from the whole log: ${causes[wholeCause]}`);
  }
  const { fromMs, requests, denied, keys, deniedKeys, worstBurst, meetsGoal } = secondHalf;
  const result = meetsGoal
    ? "The goal is met there, too."
    : "The goal is not met there: the traffic of the two halves differs. Use a longer log, or --whole to choose from both.";
  return wrappedLines(
    `Chosen from the first half of the log, until ${clockText(fromMs)} UTC. On the second half, which was not used, it denies ${partText(denied, requests)} of ${countText(requests)} requests and ${partText(deniedKeys, keys)} of ${countOf(keys, "key")}, and lets at most ${countOf(worstBurst, "request")} per second reach the origin. ${result}`,
  );
}

/**
 * The part of the traffic that the limit was chosen from, and the check on the second half. The check is null when the
 * limit was chosen from the whole traffic.
 */
const halfFacts = ({ chosenFrom, secondHalf: half }: CheckedAdvice): object => ({
  chosenFrom: {
    from: new Date(chosenFrom.source.fromMs).toISOString(),
    to: new Date(chosenFrom.source.toMs).toISOString(),
    requests: chosenFrom.atMs.length,
    keys: chosenFrom.keys.length,
  },
  secondHalf:
    half === null
      ? null
      : {
          from: new Date(half.fromMs).toISOString(),
          requests: half.requests,
          denied: half.denied,
          deniedShare: half.requests === 0 ? 0 : half.denied / half.requests,
          keys: half.keys,
          deniedKeys: half.deniedKeys,
          deniedKeyShare: half.keys === 0 ? 0 : half.deniedKeys / half.keys,
          worstBurstPerSecond: half.worstBurst,
          meetsGoal: half.meetsGoal,
        },
});

type AdvisedTraffic = Pick<ReadTraffic, "lines" | "facts" | "keyParts" | "keyFields" | "filter">;

/** @param name of the policy in TOML */
export function adviceLines(traffic: AdvisedTraffic, checked: CheckedAdvice, name: string): string[] {
  const { advice } = checked;
  const { goal, candidates, notes, recommendation } = advice;
  const check = secondHalfLines(checked);
  const chosen = chosenOf(advice);
  const place =
    recommendation.kind === "global"
      ? "beside the policies that limit each key"
      : "in place of a policy with this name";
  const tomlHeading = `In wrangler.toml, below [vars], ${place}:`;
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
    ...(chosen === null ? [] : ["", tomlHeading, "", ...tomlOf(traffic, advice, chosen, name)]),
  ];
}

const headings = {
  recommended: "Recommended",
  global: "Recommended",
  unneeded: "No limit needed",
  wait: "Too few keys",
} as const;

function chosenOf({ candidates, global, recommendation }: Advice): Candidate | null {
  if (recommendation.kind === "global") return global;
  return recommendation.kind === "recommended" ? (candidates[recommendation.candidate] ?? null) : null;
}

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
    estimateText(deniedShare, shortText),
    estimateText(deniedKeyShare, shortText),
    deniedActiveKeyShare === null ? "" : estimateText(deniedActiveKeyShare, shortText),
    estimateText(worstBurst, (burst) => countText(Math.round(burst))),
    `${meetsGoal ? "met" : ""}${candidate === chosen ? " <-" : ""}`,
  ];
}

const estimateText = ({ value, low, high }: Estimate, textOf: (value: number) => string): string =>
  `${textOf(value)} (${textOf(low)}-${textOf(high)})`;

/** A share in percent with two digits; small values are below a thousandth. */
function shortText(share: number): string {
  const percent = share * 100;
  return percent > 0 && percent < 0.001 ? "<0.001" : String(Number(percent.toPrecision(2)));
}

function outlierLines({ advice: { outliers }, secondHalf }: CheckedAdvice, chosen: Candidate | null): string[] {
  if (chosen === null || outliers.length === 0) return [];
  const where = secondHalf === null ? "" : " in the first half";
  return ["", `Keys that it would deny most${where}`, ...deniedKeyTable(outliers)];
}

function tomlOf(traffic: AdvisedTraffic, { recommendation }: Advice, chosen: Candidate, name: string): string[] {
  const { filter } = traffic;
  const { written, strategy } = chosen;
  const { keyParts, keyFields } = recommendation.kind === "global" ? { keyParts: ["global"], keyFields: [] } : traffic;
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
    toml: chosen === null ? null : `${tomlOf(traffic, advice, chosen, name).join("\n")}\n`,
  };
}

const candidateFacts = ({ result, limits: _limits, ...candidate }: Candidate): object => ({
  ...candidate,
  denied: result.denied,
  deniedKeys: result.deniedKeys,
  longestDeniedMs: result.longestDeniedMs,
});
