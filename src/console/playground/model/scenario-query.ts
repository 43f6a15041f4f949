/**
 * A scenario as text: the query of a URL, such as `limit=100/1m+fixed-window&traffic=steady&rate=120/1m`, and its limits as
 * lines of `wrangler.toml`.
 */
import {
  acceptedNotation,
  type ConfigProblem,
  type LimitInput,
  readLimits,
  strategies,
  strategyNames,
  defaultStrategy,
} from "../../../strategies/index.ts";
import { parseUnits, parseWindow, splitNotation } from "../../../strategies/notation.ts";
import { didYouMean } from "../../../validation/problems.ts";
import { mostRequests, type ScenarioField, scenarioFields } from "./scenario-fields.ts";
import type { Scenario, Traffic } from "./scenario.ts";

/** The values of absent fields. They never change, because links rely on them. */
export const defaultScenario: Scenario = {
  limits: [{ limit: 100, window: "1m" }],
  traffic: { kind: "steady", rate: { count: 120, windowMs: 60_000 } },
  lengthMs: 180_000,
  keys: 1,
  skew: 1,
  cost: 1,
  runsMs: 0,
  retries: { kind: "none", pauseMs: 1_000, attempts: 3 },
  startMs: Date.UTC(2026, 0, 5),
  seed: 1,
};

const defaultBursts = { size: 100, withinMs: 1_000, firstMs: 0, everyMs: 60_000 };

/** A scenario that was read from text. */
interface ReadScenario {
  /** Always valid: fields with problems have their defaults. */
  readonly scenario: Scenario;
  /** `describeProblem` makes a line for people. */
  readonly problems: readonly ConfigProblem[];
}

type Report = (variable: string, value: unknown, accepted: string, field?: string) => void;

/** @param otherNames fields of the query that belong to somebody else */
export function parseScenario(query: string, otherNames: readonly string[] = []): ReadScenario {
  const problems: ConfigProblem[] = [];
  const report: Report = (variable, value, accepted, field = "") => problems.push({ variable, field, value, accepted });
  const written = new URLSearchParams(query);
  const known = ["limit", ...Object.keys(scenarioFields)];
  for (const name of new Set(written.keys())) {
    if (known.includes(name) || otherNames.includes(name)) continue;
    report(name, written.get(name), `one of the fields ${known.join(", ")}${didYouMean(name, known)}`);
  }
  const read = reader(written, report);
  const limits = readLimitTexts(written.getAll("limit"), report);
  const scenario: Scenario = {
    limits,
    traffic: readTraffic(read),
    lengthMs: read("length", scenarioFields.length, defaultScenario.lengthMs),
    keys: read("keys", scenarioFields.keys, defaultScenario.keys),
    skew: read("skew", scenarioFields.skew, defaultScenario.skew),
    cost: read("cost", scenarioFields.cost, defaultScenario.cost),
    runsMs: read("runs", scenarioFields.runs, defaultScenario.runsMs),
    retries: {
      kind: read("retry", scenarioFields.retry, defaultScenario.retries.kind),
      pauseMs: read("pause", scenarioFields.pause, defaultScenario.retries.pauseMs),
      attempts: read("attempts", scenarioFields.attempts, defaultScenario.retries.attempts),
    },
    startMs: read("start", scenarioFields.start, defaultScenario.startMs),
    seed: read("seed", scenarioFields.seed, defaultScenario.seed),
  };
  const excess = excessOf(scenario);
  if (excess === null) return { scenario, problems };
  report(excess.field, excess.requests, acceptedRequests);
  const { traffic, lengthMs } = defaultScenario;
  return { scenario: { ...scenario, traffic, lengthMs }, problems };
}

type Read = <Value>(name: string, field: ScenarioField<Value>, absent: Value) => Value;

function reader(written: URLSearchParams, report: Report): Read {
  return (name, field, absent) => {
    const text = written.get(name);
    if (text === null) return absent;
    const value = field.read(text);
    if (value !== null) return value;
    report(name, text, field.accepted);
    return absent;
  };
}

function readTraffic(read: Read): Traffic {
  const fields = scenarioFields;
  const kind = read("traffic", fields.traffic, "steady");
  switch (kind) {
    case "steady":
    case "poisson":
      return { kind, rate: read("rate", fields.rate, { count: 120, windowMs: 60_000 }) };
    case "bursts":
      return {
        kind,
        size: read("size", fields.size, defaultBursts.size),
        withinMs: read("within", fields.within, defaultBursts.withinMs),
        firstMs: read("first", fields.first, defaultBursts.firstMs),
        everyMs: read("every", fields.every, defaultBursts.everyMs),
      };
    case "times":
      return { kind, times: read("at", fields.at, [{ atMs: 0, count: 1, cost: null }]) };
    case "log":
      return { kind };
    default:
      return kind satisfies never;
  }
}

export const acceptedRequests = `at most ${mostRequests} requests in all`;

/** The field that causes too many requests, and their number; null if they are not too many. */
export function excessOf({ traffic, lengthMs }: Scenario): { field: string; requests: number } | null {
  const requests = expectedRequests(traffic, lengthMs);
  const fields = { steady: "rate", poisson: "rate", bursts: "size", times: "at", log: "traffic" };
  return requests > mostRequests ? { field: fields[traffic.kind], requests } : null;
}

function expectedRequests(traffic: Traffic, lengthMs: number): number {
  switch (traffic.kind) {
    case "steady":
    case "poisson":
      return Math.ceil((traffic.rate.count * lengthMs) / traffic.rate.windowMs);
    case "bursts":
      return Math.ceil(Math.max(0, lengthMs - traffic.firstMs) / traffic.everyMs) * traffic.size;
    case "times":
      return traffic.times.reduce((sum, { count }) => sum + count, 0);
    case "log":
      return 0;
    default:
      return traffic satisfies never;
  }
}

const strategyName = (token: string): boolean => strategies.has(token);
const optionForm = /^([a-z]+)=(.*)$/;

/** Limits as in the URL: `100/1m`, `10/1s token-bucket burst=30`, `1000/1d align=calendar timezone=Europe/Berlin`. */
function readLimitTexts(texts: readonly string[], report: Report): readonly LimitInput[] {
  if (texts.length === 0) return defaultScenario.limits;
  const inputs = texts.flatMap((text) => {
    const accepted = acceptedStrategyOf(text);
    if (accepted !== null) {
      report("limit", text, accepted);
      return [];
    }
    const read = limitsOfText(text);
    if (read === null) report("limit", text, acceptedNotation);
    return read ?? [];
  });
  const wrong = new Set<number>();
  if (inputs.length === 0) return defaultScenario.limits;
  readLimits(inputs, {}, ({ field, value, accepted }) => {
    const [, index] = /^\[(\d+)\]/.exec(field) ?? [];
    if (index !== undefined) wrong.add(Number(index));
    else for (const each of inputs.keys()) wrong.add(each);
    const option = /^\[\d+\]\.(\w+)$/.exec(field)?.[1] ?? "";
    const owners = strategiesWith(option, value);
    const isForeign = accepted.startsWith("one of the fields") && owners.length > 0;
    const needed = `the strategy ${owners.join(" or ")} before ${option}=`;
    report("limit", value, isForeign ? needed : accepted, field);
  });
  const valid = inputs.filter((_input, index) => !wrong.has(index));
  return valid.length === 0 ? defaultScenario.limits : valid;
}

/** The strategies that have an option of this value. */
const strategiesWith = (option: string, value: unknown): string[] =>
  strategyNames.filter((strategy) => {
    let problems = 0;
    readLimits([{ limit: 1, window: "1m", strategy, [option]: value }], {}, () => problems++);
    return problems === 0;
  });

/** The accepted form of a text with an unknown strategy, or with several limits and a strategy; otherwise null. */
function acceptedStrategyOf(text: string): string | null {
  const tokens = text.trim().split(/\s+/);
  if (tokens.some((token) => token.endsWith(";") && strategyName(token.slice(0, -1))))
    return "each limit with a strategy on a line of its own";
  const limitsEnd = tokens.findLastIndex((_, index) => isNotation(tokens.slice(0, index + 1)));
  const wrong = limitsEnd === -1 ? undefined : tokens[limitsEnd + 1];
  if (wrong === undefined || strategyName(wrong) || optionForm.test(wrong)) return null;
  const names = strategyNames;
  return `one of the strategies ${names.join(", ")}${didYouMean(wrong, names)}`;
}

const isNotation = (tokens: readonly string[]): boolean =>
  splitNotation(tokens.join(" ")).every(
    (part) => part !== null && parseUnits(part.limit) > 0 && parseWindow(part.window) !== null,
  );

/** Null if the text does not begin with limits in notation. */
function limitsOfText(text: string): LimitInput[] | null {
  const tokens = text.trim().split(/\s+/);
  const first = tokens.findIndex((token) => strategyName(token) || optionForm.test(token));
  const end = first === -1 ? tokens.length : first;
  const parts = splitNotation(tokens.slice(0, end).join(" "));
  const options = Object.fromEntries(tokens.slice(end).map(optionOf));
  const valid = parts.filter((part) => part !== null);
  const isNumber = valid.every(({ limit }) => !Number.isNaN(parseUnits(limit)));
  if (valid.length < parts.length || !isNumber) return null;
  return valid.map(({ limit, window }) => ({ limit: parseUnits(limit), window, ...options }));
}

function optionOf(token: string): readonly [name: string, value: unknown] {
  const [, name, value = ""] = optionForm.exec(token) ?? ["", "strategy", token];
  if (name === "burst" || name === "buckets") return [name, /^\d+$/.test(value) ? +value : value];
  if (name === "elastic") return [name, value === "true" ? true : value === "false" ? false : value];
  return [name ?? "", value];
}

/** The text that `limitsOfText` reads. */
export function textOfLimit({ limit, window, strategy, ...options }: LimitInput): string {
  const rest = Object.entries(options).filter(([, value]) => value !== undefined);
  return [
    `${limit}/${window}`,
    ...(strategy === undefined ? [] : [strategy]),
    ...rest.map(([name, value]) => `${name}=${String(value).replace(/\s+/g, "")}`),
  ].join(" ");
}

/** The query of a scenario, without `?`. Fields with their default value are left out, and so is the text of a log. */
export function formatScenario(scenario: Scenario): string {
  const parts = scenario.limits.map((limit) => `limit=${encode(textOfLimit(limit))}`);
  const { traffic, retries } = scenario;
  const add = <Value>(name: string, field: ScenarioField<Value>, value: Value, absent?: Value) => {
    if (value !== absent) parts.push(`${name}=${encode(field.write(value))}`);
  };
  const fields = scenarioFields;
  add("traffic", fields.traffic, traffic.kind);
  if (traffic.kind === "steady" || traffic.kind === "poisson") {
    add("rate", fields.rate, traffic.rate);
  } else if (traffic.kind === "bursts") {
    add("size", fields.size, traffic.size);
    add("within", fields.within, traffic.withinMs);
    add("first", fields.first, traffic.firstMs);
    add("every", fields.every, traffic.everyMs);
  } else if (traffic.kind === "times") {
    add("at", fields.at, traffic.times);
  }
  add("length", fields.length, scenario.lengthMs, defaultScenario.lengthMs);
  add("keys", fields.keys, scenario.keys, defaultScenario.keys);
  add("skew", fields.skew, scenario.skew, defaultScenario.skew);
  add("cost", fields.cost, scenario.cost, defaultScenario.cost);
  add("runs", fields.runs, scenario.runsMs, defaultScenario.runsMs);
  add("retry", fields.retry, retries.kind, defaultScenario.retries.kind);
  add("pause", fields.pause, retries.pauseMs, defaultScenario.retries.pauseMs);
  add("attempts", fields.attempts, retries.attempts, defaultScenario.retries.attempts);
  add("start", fields.start, scenario.startMs, defaultScenario.startMs);
  add("seed", fields.seed, scenario.seed, defaultScenario.seed);
  return parts.join("&");
}

/** Percent-encodes only what a query needs, so that the URL stays readable. */
const encode = (text: string): string =>
  encodeURIComponent(text)
    .replaceAll("%20", "+")
    .replace(/%(?:2C|2F|3A|3B|3D|40)/g, decodeURIComponent);

/** TOML rejects a second `[vars]`, which the file has already. */
const place = "# Below [vars] in wrangler.toml, in place of LIMITS, STRATEGY and POLICIES:\n";

/** The variables of the short form. They are complete, so that no `STRATEGY` of the file applies to them. */
export function wranglerText(limits: readonly LimitInput[]): string {
  const [only] = limits;
  if (only !== undefined && limits.length === 1 && isPlain(only)) {
    const strategy = tomlValue(only.strategy ?? defaultStrategy);
    return `${place}LIMITS = ${notation(only)}\nSTRATEGY = ${strategy}\n`;
  }
  const items = limits.map((limit) => `  ${itemText(limit)},\n`).join("");
  const isComplete = limits.every(({ strategy }) => strategy !== undefined);
  const rest = isComplete ? "" : `STRATEGY = ${tomlValue(defaultStrategy)}\n`;
  return `${place}LIMITS = [\n${items}]\n${rest}`;
}

/** Whether a limit has no fields of its own except a strategy. */
const isPlain = ({ limit: _limit, window: _window, strategy: _strategy, ...rest }: LimitInput) =>
  Object.values(rest).every((value) => value === undefined);

const notation = ({ limit, window }: LimitInput): string => tomlValue(`${limit}/${window}`);

function itemText(limit: LimitInput): string {
  if (isPlain(limit) && limit.strategy === undefined) return notation(limit);
  const fields = Object.entries(limit).filter(([, value]) => value !== undefined);
  return `{ ${fields.map(([name, value]) => `${name} = ${tomlValue(value)}`).join(", ")} }`;
}

/** A text, a number or a boolean. TOML writes them as JSON does. */
const tomlValue = (value: unknown): string => JSON.stringify(value);
