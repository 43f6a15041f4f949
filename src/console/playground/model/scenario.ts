/** A scenario: limits, and the traffic that meets them. One table has the texts of each field: in the URL and in its input. */
import { formatDuration, type LimitInput, parseDuration } from "../../../strategies/index.ts";
import { parseUnits } from "../../../strategies/notation.ts";
import { isCalendarDate, latestStartMs } from "../../../advisor/log/line-reader.ts";

/** How a value is read from text and written as text. */
export interface TextForm<Value> {
  readonly accepted: string;
  /** Null if the text is not accepted. */
  read(text: string): Value | null;
  write(value: Value): string;
}

/** Requests per window, such as 120 per minute. */
interface Rate {
  /** More than 0, possibly a fraction. */
  readonly count: number;
  readonly windowMs: number;
}

/** Requests at one instant. */
export interface TimedRequests {
  readonly atMs: number;
  readonly count: number;
  /** Units of each request; null for the cost of the scenario. */
  readonly cost: number | null;
}

/** The most first requests. With more, a run would take seconds. */
export const mostRequests = 250_000;

const dayMs = 86_400_000;
const mostDurationMs = 3_650 * dayMs;

function count(least: number, most: number): TextForm<number> {
  return {
    accepted: `an integer from ${least} to ${most}`,
    read(text) {
      const value = parseUnits(text);
      return value >= least && value <= most ? value : null;
    },
    write: String,
  };
}

const size = count(1, mostRequests);
const cost = count(1, 1_000_000_000);

const decimal = (text: string): number => (/^\d{1,15}(?:\.\d{1,20})?$/.test(text) ? +text : NaN);

/** The text that `decimal` reads, which has no exponent. */
function decimalText(value: number): string {
  const text = String(value);
  return text.includes("e") ? value.toFixed(20).replace(/0+$/, "") : text;
}

function duration(leastMs: number, mostMs = mostDurationMs): TextForm<number> {
  const range = `from ${leastMs === 0 ? "0" : formatDuration(leastMs)} to ${formatDuration(mostMs)}`;
  return {
    accepted: `a duration ${range} such as "500ms", "2s" or "5m"`,
    read(text) {
      const milliseconds = /^0+\s*[a-z]*$/i.test(text.trim()) ? 0 : parseDuration(text);
      const isWithin = milliseconds !== null && milliseconds >= leastMs && milliseconds <= mostMs;
      return isWithin ? milliseconds : null;
    },
    write: (milliseconds) => (milliseconds === 0 ? "0s" : formatDuration(milliseconds)),
  };
}

/** One of several names. Each has a text for people. */
function choice<Name extends string>(texts: Readonly<Record<Name, string>>) {
  const isName = (text: string): text is Name => Object.hasOwn(texts, text);
  return {
    accepted: `one of ${Object.keys(texts)
      .map((name) => `"${name}"`)
      .join(", ")}`,
    read: (text: string) => (isName(text) ? text : null),
    write: (name: Name): string => name,
    options: Object.entries<string>(texts),
  };
}

const rate: TextForm<Rate> = {
  accepted: 'requests per time such as "120/1m", "2.5/s" or "1000 per hour"',
  read(text) {
    const [, number = "", window = ""] = /^\s*([\d.]+)\s*(?:\/|\bper\b)\s*(.+)$/i.exec(text) ?? [];
    const windowMs = parseDuration(window);
    const perWindow = decimal(number);
    return perWindow > 0 && windowMs !== null ? { count: perWindow, windowMs } : null;
  },
  write: (value) => `${decimalText(value.count)}/${formatDuration(value.windowMs)}`,
};

const timesForm = /^(\d{1,12}(?:\.\d{1,3})?)(?:x(\d+))?(?:@(\d+))?$/;
const mostTimes = 2_000;

/** Requests at given seconds: `90x10@5` is ten requests with a cost of 5, 90 seconds after the start. */
const times: TextForm<readonly TimedRequests[]> = {
  accepted: `at most ${mostTimes} requests by their seconds, up to ${mostDurationMs / 1_000}, such as "0,1.5,90x10,100@5" (x: how many, @: their cost)`,
  read(text) {
    const read = text.split(",").map((part): TimedRequests | null => {
      const [, seconds, number = "1", units] = timesForm.exec(part.trim()) ?? [];
      const atMs = Math.round(Number(seconds) * 1_000);
      const requests = size.read(number);
      const each = units === undefined ? null : cost.read(units);
      const isCostRead = units === undefined || each !== null;
      return atMs <= mostDurationMs && requests !== null && isCostRead ? { atMs, count: requests, cost: each } : null;
    });
    const valid = read.filter((each) => each !== null);
    return valid.length === read.length && valid.length <= mostTimes ? valid : null;
  },
  write: (value) =>
    value
      .map(({ atMs, count: requests, cost: units }) =>
        [atMs / 1_000, requests === 1 ? "" : `x${requests}`, units === null ? "" : `@${units}`].join(""),
      )
      .join(","),
};

const instantForm = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?)(Z|[ +-]\d\d:\d\d)?)?$/;

/** An instant. Without a zone it is in UTC. */
const instant: TextForm<number> = {
  accepted: 'a time from 1970 to 3899 such as "2026-01-05T12:00:00Z"',
  read(text) {
    const [, date = "", time = "00:00", zone = "Z"] = instantForm.exec(text.trim()) ?? [];
    // A `+` in a query is a space.
    const atMs = Date.parse(`${date}T${time}${zone.replace(" ", "+")}`);
    return isCalendarDate(date) && atMs >= 0 && atMs <= latestStartMs ? atMs : null;
  },
  write: (value) => new Date(value).toISOString().replace(".000Z", "Z"),
};

const skew: TextForm<number> = {
  accepted: "a number from 0 (even) to 5; 1 is Zipf's law",
  read(text) {
    const value = decimal(text);
    return value >= 0 && value <= 5 ? value : null;
  },
  write: decimalText,
};

const counts = [1, 2, 5, 10, 20, 30, 40, 50, 60, 80, 100, 120, 150, 200, 300, 500, 1_000, 2_000, 5_000, 10_000];
const longDurations = [
  1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 50_000, 59_000, 60_000, 90_000, 120_000, 180_000, 300_000, 600_000,
  1_800_000, 3_600_000, 7_200_000,
];
const positiveDurations = [10, 50, 100, 200, 500, ...longDurations];
const durations = [0, ...positiveDurations];

interface ScenarioField<Value> extends TextForm<Value> {
  /** The name of the field in the URL. */
  readonly query: string;
  readonly label: string;
  /** The kinds of traffic that have the field. Absent: all kinds have it. */
  readonly patterns?: readonly string[];
  /** The values of its slider, in order; absent for a field without a slider. */
  steps?(current: Value): readonly Value[];
  /**
   * Maps a value to a number, to find the slider step nearest to the current value. Needed for values that are not
   * numbers.
   */
  order?(value: Value): number;
}

/** In the order of the URL. All durations are integer milliseconds, and instants count from the start of the scenario. */
const table = {
  traffic: {
    query: "traffic",
    label: "Pattern",
    ...choice({
      /** Requests at equal distances. */
      steady: "Steady",
      /** Independent requests at random instants. */
      poisson: "Random (Poisson)",
      /** Bursts of `size` requests at equal distances within `withinMs`. */
      bursts: "Bursts",
      /** The requests that the field `times` lists. */
      times: "Exact times",
      /** The requests of a pasted access log, which brings its own start and keys. Its text is too long for a URL. */
      log: "Access log",
    }),
  },
  rate: {
    query: "rate",
    label: "Rate",
    patterns: ["steady", "poisson"],
    ...rate,
    steps: (current: Rate): readonly Rate[] => counts.map((each) => ({ ...current, count: each })),
    order: (value: Rate) => value.count / value.windowMs,
  },
  size: { query: "size", label: "Requests per burst", patterns: ["bursts"], ...size, steps: () => counts },
  withinMs: { query: "within", label: "Sent within", patterns: ["bursts"], ...duration(0), steps: () => durations },
  /** When the first burst begins. */
  firstMs: { query: "first", label: "First burst at", patterns: ["bursts"], ...duration(0), steps: () => durations },
  /** From the beginning of a burst to the beginning of the next one. */
  everyMs: { query: "every", label: "Every", patterns: ["bursts"], ...duration(1), steps: () => positiveDurations },
  times: { query: "at", label: "Seconds", patterns: ["times"], ...times },
  /** How long clients send first requests. Retries may come later. Ignored for `times` and `log`. */
  lengthMs: { query: "length", label: "Length", ...duration(1), steps: () => longDurations },
  /** The number of clients. Each has counters of its own. */
  keys: {
    query: "keys",
    label: "Clients",
    ...count(1, 10_000),
    steps: () => [1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1_000],
  },
  /** How unevenly the requests are spread over the clients: 0 is even, 1 is Zipf's law. */
  skew: { query: "skew", label: "Uneven (Zipf)", ...skew, steps: () => [0, 0.2, 0.4, 0.6, 0.8, 1, 1.2, 1.5, 2, 3] },
  /** Units of each request that states no cost. */
  cost: { query: "cost", label: "Cost of a request", ...cost, steps: () => [1, 2, 3, 5, 10, 20, 50, 100] },
  /** How long a request runs, which is how long it keeps its slot of a `concurrency` limit. */
  runsMs: { query: "runs", label: "Requests take", ...duration(0, dayMs), steps: () => durations },
  /** How clients react to a denial. */
  retry: {
    query: "retry",
    label: "Denied clients",
    ...choice({
      none: "Give up",
      /** They send the request again after `pauseMs`. */
      ignore: "Retry, and ignore Retry-After",
      obey: "Retry after Retry-After",
      /** They send the request again after `Retry-After` plus a random time of at most `pauseMs`. */
      jitter: "Retry-After, and a random time",
    }),
  },
  pauseMs: { query: "pause", label: "Pause", ...duration(0, dayMs), steps: () => durations },
  /** The most retries of one request. */
  attempts: { query: "attempts", label: "Most retries", ...count(0, 20), steps: () => [0, 1, 2, 3, 4, 5, 10, 20] },
  /** In milliseconds since 1970. */
  startMs: { query: "start", label: "Start", ...instant },
  /** Equal seeds give equal random numbers. */
  seed: { query: "seed", label: "Seed", ...count(0, 2 ** 32 - 1) },
} satisfies Record<string, ScenarioField<unknown>>;

export type FieldName = keyof typeof table;

export type FieldValues = {
  [Name in FieldName]: NonNullable<ReturnType<(typeof table)[Name]["read"]>>;
};

/** A field that this kind of traffic does not have keeps its default. */
export interface Scenario extends Readonly<FieldValues> {
  /** As written in the configuration; from 1 to 16. */
  readonly limits: readonly LimitInput[];
}

export const scenarioFields: { readonly [Name in FieldName]: ScenarioField<FieldValues[Name]> } = table;

export const fieldText = <Name extends FieldName>(values: Readonly<Pick<FieldValues, Name>>, name: Name): string =>
  scenarioFields[name].write(values[name]);

export const { options: trafficKinds } = table.traffic;
export const { options: retryKinds } = table.retry;

const isField = (name: string): name is FieldName => Object.hasOwn(table, name);

export const fieldNames: readonly FieldName[] = Object.keys(table).filter(isField);

/** The defaults of absent fields. They never change, because links rely on them. */
export const defaultPattern = {
  traffic: "steady",
  rate: { count: 120, windowMs: 60_000 },
  size: 100,
  withinMs: 1_000,
  firstMs: 0,
  everyMs: 60_000,
  times: [{ atMs: 0, count: 1, cost: null }],
} as const satisfies Partial<Scenario>;

export const defaultScenario: Scenario = {
  ...defaultPattern,
  limits: [{ limit: 100, window: "1m" }],
  lengthMs: 180_000,
  keys: 1,
  skew: 1,
  cost: 1,
  runsMs: 0,
  retry: "none",
  pauseMs: 1_000,
  attempts: 3,
  startMs: Date.UTC(2026, 0, 5),
  seed: 1,
};
