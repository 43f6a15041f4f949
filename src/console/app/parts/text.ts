/** Numbers, durations, instants and limits as people read them. */
import type { FullLimit } from "../../../admin/wire.ts";

const wholeNumber = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const shortNumber = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

export const numberText = (value: number): string => wholeNumber.format(value);

/** "1 key", "1,204 keys". */
export const countOf = (count: number, one: string, many = `${one}s`): string =>
  `${numberText(count)} ${count === 1 ? one : many}`;

/** "1,204", or "1,150 to 1,204" when the count is not exact. */
export const countText = ({ count, error }: { readonly count: number; readonly error: number }): string =>
  error === 0 ? numberText(count) : `${numberText(count - error)} to ${numberText(count)}`;

/** At most three digits: "12.3K". */
export const shortNumberText = (value: number): string => shortNumber.format(value);

/** A share of a whole; a dash without a whole. */
export function percentText(part: number, whole: number): string {
  if (whole === 0) return "–";
  const percent = (100 * part) / whole;
  return `${percent > 0 && percent < 10 ? percent.toFixed(1) : Math.round(percent)} %`;
}

const units = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1_000],
] as const;

/** The two largest units, rounded up to the next second: "9 min 59 s". */
export function durationText(durationMs: number): string {
  if (durationMs <= 0) return "0 s";
  let restMs = Math.ceil(durationMs / 1_000) * 1_000;
  const parts: string[] = [];
  for (const [name, lengthMs] of units) {
    const count = Math.floor(restMs / lengthMs);
    restMs -= count * lengthMs;
    if (count > 0) parts.push(`${count} ${name}`);
    else if (parts.length > 0) break;
    if (parts.length === 2) break;
  }
  return parts.join(" ");
}

/** A wait, with tenths of a second where they matter: "3.2 s". */
export function waitText(waitMs: number | null): string {
  if (waitMs === null) return "never";
  if (waitMs <= 0) return "now";
  return waitMs < 10_000 ? `${Math.ceil(waitMs / 100) / 10} s` : durationText(waitMs);
}

const dayAndTime = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const time = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

/** In the time zone of the browser. */
export const instantText = (at: string | number): string => dayAndTime.format(new Date(at));

export const timeText = (at: string | number): string => time.format(new Date(at));

const clock = new Intl.DateTimeFormat("en-GB", { timeStyle: "short" });
const shortDay = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

/** "09:41", or "27 Nov, 09:41" on another day than `nowMs`. */
export function shortInstantText(at: string | number, nowMs: number): string {
  const [day, today] = [at, nowMs].map((each) => shortDay.format(new Date(each)));
  const text = clock.format(new Date(at));
  return day === today ? text : `${day}, ${text}`;
}

/** The largest unit that divides a duration exactly, and the number of these units. */
export function wholeUnits(durationMs: number): readonly [count: number, unit: (typeof units)[number][0] | "ms"] {
  const [unit, lengthMs] = units.find(([, each]) => durationMs % each === 0) ?? (["ms", 1] as const);
  return [durationMs / lengthMs, unit];
}

export const unitNames = { d: "day", h: "hour", min: "minute", s: "second", ms: "ms" } as const;

/** "minute", "10 s", "2 h". */
export function windowText(windowMs: number): string {
  const [count, unit] = wholeUnits(windowMs);
  return count === 1 && unit !== "ms" ? unitNames[unit] : `${count} ${unit}`;
}

interface NamedLimit extends Pick<FullLimit, "limit" | "windowMs" | "strategy"> {
  readonly period?: FullLimit["period"] | undefined;
}

/** "100 per minute", "1,000 per calendar month", "5 at once". */
export function limitText({ limit, windowMs, strategy, period }: NamedLimit): string {
  if (strategy === "concurrency") return `${numberText(limit)} at once`;
  return `${numberText(limit)} per ${period === undefined ? windowText(windowMs) : `calendar ${period}`}`;
}

export const limitsText = (limits: readonly NamedLimit[]): string => limits.map(limitText).join(" and ");

/** The beginning of the id of a key, which is enough to distinguish keys in a list. */
export function shortId(id: string): string {
  // The id of a key within others begins with their ids.
  const start = id.lastIndexOf(".") + 1;
  return `${id.slice(start, start + 8)}…`;
}
