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
import { isValid } from "./lanes.ts";
import {
  defaultPattern,
  defaultScenario,
  type FieldName,
  type FieldValues,
  fieldNames,
  fieldText,
  mostRequests,
  type Scenario,
  scenarioFields,
  type TextForm,
} from "./scenario.ts";

export type Report = (variable: string, value: unknown, accepted: string, field?: string) => void;

/**
 * Reads a field of the query. Returns null if the field is missing, or if its text has a problem, which is reported.
 */
export function readField<Value>(
  written: URLSearchParams,
  name: string,
  form: TextForm<Value>,
  report: Report,
): Value | null {
  const text = written.get(name);
  if (text === null) return null;
  const value = form.read(text);
  if (value === null) report(name, text, form.accepted);
  return value;
}

/**
 * Reads a scenario, which is always valid: a field with a problem gets its default.
 * @param otherNames fields of the query that the scenario does not own
 */
export function parseScenario(query: string, otherNames: readonly string[] = []) {
  const problems: ConfigProblem[] = [];
  const report: Report = (variable, value, accepted, field = "") => problems.push({ variable, field, value, accepted });
  const written = new URLSearchParams(query);
  const known = ["limit", ...fieldNames.map((name) => scenarioFields[name].query)];
  for (const name of new Set(written.keys())) {
    if (known.includes(name) || otherNames.includes(name)) continue;
    report(name, written.get(name), `one of the fields ${known.join(", ")}${didYouMean(name, known)}`);
  }
  const values: FieldValues = { ...defaultScenario };
  const read = <Name extends FieldName>(target: Pick<FieldValues, Name>, name: Name): void => {
    const field = scenarioFields[name];
    target[name] = readField(written, field.query, field, report) ?? target[name];
  };
  const limits = readLimitTexts(written.getAll("limit"), report);
  for (const name of fieldNames) if (hasField(values, name)) read(values, name);
  const scenario: Scenario = { ...values, limits };
  const excess = excessOf(scenario);
  if (excess === null) return { scenario, problems };
  report(excess.field, excess.requests, acceptedRequests);
  return { scenario: { ...scenario, ...defaultPattern, lengthMs: defaultScenario.lengthMs }, problems };
}

/** Whether this kind of traffic has the field. `traffic` is always read first. */
function hasField({ traffic }: Pick<Scenario, "traffic">, name: FieldName): boolean {
  const { patterns } = scenarioFields[name];
  return patterns === undefined || patterns.includes(traffic);
}

export const acceptedRequests = `at most ${mostRequests} requests in all`;

/** The field that causes too many requests, and their number; null if they are not too many. */
export function excessOf(scenario: Scenario): { field: string; requests: number } | null {
  const requests = expectedRequests(scenario);
  const fields = { steady: "rate", poisson: "rate", bursts: "size", times: "at", log: "traffic" };
  return requests > mostRequests ? { field: fields[scenario.traffic], requests } : null;
}

function expectedRequests({ traffic, rate, size, firstMs, everyMs, times, lengthMs }: Scenario): number {
  switch (traffic) {
    case "steady":
    case "poisson":
      return Math.ceil((rate.count * lengthMs) / rate.windowMs);
    case "bursts":
      return Math.ceil(Math.max(0, lengthMs - firstMs) / everyMs) * size;
    case "times":
      return times.reduce((sum, { count }) => sum + count, 0);
    case "log":
      return 0;
    default:
      return traffic satisfies never;
  }
}

const strategyName = (token: string): boolean => strategies.has(token);
const optionForm = /^([a-z]+)=(.*)$/;

/**
 * Reads limits as they are in the URL: `100/1m`, `10/1s token-bucket burst=30`, `1000/1d align=calendar
 * timezone=Europe/Berlin`.
 */
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
  strategyNames.filter((strategy) => isValid({ limit: 1, window: "1m", strategy, [option]: value }));

/**
 * The accepted form in place of a text with an unknown strategy, or with several limits and a strategy; null for any
 * other text.
 */
function acceptedStrategyOf(text: string): string | null {
  const tokens = text.trim().split(/\s+/);
  if (tokens.some((token) => token.endsWith(";") && strategyName(token.slice(0, -1))))
    return "each limit with a strategy on a line of its own";
  const limitsEnd = tokens.findLastIndex((_, index) => isNotation(tokens.slice(0, index + 1)));
  const wrong = limitsEnd === -1 ? undefined : tokens[limitsEnd + 1];
  if (wrong === undefined || strategyName(wrong) || optionForm.test(wrong)) return null;
  return `one of the strategies ${strategyNames.join(", ")}${didYouMean(wrong, strategyNames)}`;
}

const isNotation = (tokens: readonly string[]): boolean =>
  splitNotation(tokens.join(" ")).every(
    (part) => part !== null && parseUnits(part.limit) > 0 && parseWindow(part.window) !== null,
  );

/** Returns null if the text does not begin with limits in notation. */
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
  for (const name of fieldNames.filter((each) => hasField(scenario, each))) {
    const { query, patterns } = scenarioFields[name];
    const isStated = name === "traffic" || patterns !== undefined || scenario[name] !== defaultScenario[name];
    if (isStated) parts.push(`${query}=${encode(fieldText(scenario, name))}`);
  }
  return parts.join("&");
}

/** Percent-encodes only what a query needs, so that the URL stays readable. */
const encode = (text: string): string =>
  encodeURIComponent(text)
    .replaceAll("%20", "+")
    .replace(/%(?:2C|2F|3A|3B|3D|40)/g, decodeURIComponent);

/** The file already has a `[vars]`, and TOML rejects a second one. */
const place = "# Below [vars] in wrangler.toml, in place of LIMITS, STRATEGY and POLICIES:\n";

/**
 * The limits as variables, in the short form where possible. All fields are complete, so that a `STRATEGY` in the file
 * does not change the limits.
 */
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

/** Whether a limit has no options apart from a strategy. */
const isPlain = ({ limit: _limit, window: _window, strategy: _strategy, ...rest }: LimitInput) =>
  Object.values(rest).every((value) => value === undefined);

const notation = ({ limit, window }: LimitInput): string => tomlValue(`${limit}/${window}`);

function itemText(limit: LimitInput): string {
  if (isPlain(limit) && limit.strategy === undefined) return notation(limit);
  const fields = Object.entries(limit).filter(([, value]) => value !== undefined);
  return `{ ${fields.map(([name, value]) => `${name} = ${tomlValue(value)}`).join(", ")} }`;
}

/** A text, a number or a boolean in TOML, which writes these like JSON. */
const tomlValue = (value: unknown): string => JSON.stringify(value);
