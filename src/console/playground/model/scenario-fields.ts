/** The fields of a scenario in the text of a URL: how each is read and written, and what it accepts. */
import { formatDuration, parseDuration } from "../../../strategies/index.ts";
import { parseUnits } from "../../../strategies/notation.ts";
import { isCalendarDate, latestStartMs } from "../../../advisor/log/line-reader.ts";
import type { Rate, RetryKind, TimedRequests, Traffic } from "./scenario.ts";

/** A field of a scenario as text. */
export interface ScenarioField<Value> {
  readonly accepted: string;
  /** Null if the text, or the value in it, is not accepted. */
  read(text: string): Value | null;
  write(value: Value): string;
}

/** More first requests would make a run take seconds. */
export const mostRequests = 250_000;

const dayMs = 86_400_000;
const mostDurationMs = 3_650 * dayMs;

/** An integer within bounds. */
function count(least: number, most: number): ScenarioField<number> {
  return {
    accepted: `an integer from ${least} to ${most}`,
    read(text) {
      const value = parseUnits(text);
      return value >= least && value <= most ? value : null;
    },
    write: String,
  };
}

/** A number that may have decimals. */
const decimal = (text: string): number => (/^\d{1,15}(?:\.\d{1,20})?$/.test(text) ? +text : NaN);

/** The text that `decimal` reads, which has no exponent. */
function decimalText(value: number): string {
  const text = String(value);
  return text.includes("e") ? value.toFixed(20).replace(/0+$/, "") : text;
}

function duration(leastMs: number, mostMs = mostDurationMs): ScenarioField<number> {
  const range = `from ${leastMs === 0 ? "0" : formatDuration(leastMs)} to ${formatDuration(mostMs)}`;
  return {
    accepted: `a duration ${range} such as "500ms", "2s" or "5m"`,
    read(text) {
      const milliseconds = /^0+\s*[a-z]*$/i.test(text.trim()) ? 0 : parseDuration(text);
      const isWithin = milliseconds !== null && milliseconds >= leastMs && milliseconds <= mostMs;
      return isWithin ? milliseconds : null;
    },
    write: durationText,
  };
}

const durationText = (milliseconds: number): string => (milliseconds === 0 ? "0s" : formatDuration(milliseconds));

function choice<const Names extends readonly [string, ...string[]]>(names: Names): ScenarioField<Names[number]> {
  return {
    accepted: `one of ${names.map((name) => `"${name}"`).join(", ")}`,
    read: (text) => names.find((name) => name === text) ?? null,
    write: (value) => value,
  };
}

const rate: ScenarioField<Rate> = {
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
const times: ScenarioField<readonly TimedRequests[]> = {
  accepted: `at most ${mostTimes} requests by their seconds, up to ${mostDurationMs / 1_000}, such as "0,1.5,90x10,100@5" (x: how many, @: their cost)`,
  read(text) {
    const read = text.split(",").map((part): TimedRequests | null => {
      const [, seconds, number = "1", cost] = timesForm.exec(part.trim()) ?? [];
      const atMs = Math.round(Number(seconds) * 1_000);
      const requests = size.read(number);
      const units = cost === undefined ? null : costField.read(cost);
      const isCostRead = cost === undefined || units !== null;
      const isRead = atMs <= mostDurationMs && requests !== null && isCostRead;
      return isRead ? { atMs, count: requests, cost: units } : null;
    });
    const valid = read.filter((each) => each !== null);
    return valid.length === read.length && valid.length <= mostTimes ? valid : null;
  },
  write: (value) => value.map(timeText).join(","),
};

const timeText = ({ atMs, count: requests, cost }: TimedRequests): string =>
  `${atMs / 1_000}${requests === 1 ? "" : `x${requests}`}${cost === null ? "" : `@${cost}`}`;

const instantForm = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?)(Z|[ +-]\d\d:\d\d)?)?$/;

/** An instant. Without a zone it is in UTC. */
const instant: ScenarioField<number> = {
  accepted: 'a time from 1970 to 3899 such as "2026-01-05T12:00:00Z"',
  read(text) {
    const [, date = "", time = "00:00", zone = "Z"] = instantForm.exec(text.trim()) ?? [];
    // A `+` in a query is a space.
    const atMs = Date.parse(`${date}T${time}${zone.replace(" ", "+")}`);
    return isCalendarDate(date) && atMs >= 0 && atMs <= latestStartMs ? atMs : null;
  },
  write: (value) => new Date(value).toISOString().replace(".000Z", "Z"),
};

const skew: ScenarioField<number> = {
  accepted: "a number from 0 (even) to 5; 1 is Zipf's law",
  read(text) {
    const value = decimal(text);
    return value >= 0 && value <= 5 ? value : null;
  },
  write: decimalText,
};

const size = count(1, mostRequests);
const costField = count(1, 1_000_000_000);

const trafficKinds = ["steady", "poisson", "bursts", "times", "log"] as const;
const retryKinds = ["none", "ignore", "obey", "jitter"] as const;

/** By their names in the URL. */
export const scenarioFields = {
  traffic: choice(trafficKinds) satisfies ScenarioField<Traffic["kind"]>,
  rate,
  size,
  within: duration(0),
  first: duration(0),
  every: duration(1),
  at: times,
  length: duration(1),
  keys: count(1, 10_000),
  skew,
  cost: costField,
  runs: duration(0, dayMs),
  retry: choice(retryKinds) satisfies ScenarioField<RetryKind>,
  pause: duration(0, dayMs),
  attempts: count(0, 20),
  start: instant,
  seed: count(0, 2 ** 32 - 1),
};
