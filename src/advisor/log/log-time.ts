/** Times of log lines, in milliseconds since 1970. */

export const acceptedInstant =
  'a time such as "2026-01-05T12:00:00Z", "05/Jan/2026:12:00:00 +0000" or 1767614400 (seconds, milliseconds, microseconds or nanoseconds since 1970)';

const months = "JanFebMarAprMayJunJulAugSepOctNovDec";
const clockForm = /^(\d\d)\/([A-Z][a-z]{2})\/(\d{4}):(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?: ([+-])(\d\d):?(\d\d))?$/;

/** The latest time: logs have many lines for one second. */
let latest: { readonly text: string; readonly atMs: number | null } = { text: "", atMs: null };

/** A time of the common log format; null for any other text. Without an offset it is in UTC. */
export function clockTimeMs(text: string): number | null {
  if (latest.text !== text) latest = { text, atMs: readClockTime(text) };
  return latest.atMs;
}

function readClockTime(text: string): number | null {
  const [, day, name = "", year, hour, minute, second, fraction = "0", sign, ...zone] = clockForm.exec(text) ?? [];
  const month = months.indexOf(name) / 3;
  if (day === undefined || !Number.isInteger(month) || month < 0) return null;
  const [hours, minutes] = sign === undefined ? [0, 0] : [Number(zone[0]), Number(zone[1])];
  const offsetMs = (hours * 60 + minutes) * 60_000 * (sign === "-" ? -1 : 1);
  const utc = [Number(hour), Number(minute), Number(second)] as const;
  const isClock = utc[0] < 24 && utc[1] < 60 && utc[2] <= 60 && hours < 24 && minutes < 60;
  const dayMs = Date.UTC(Number(year), month, Number(day));
  if (!isClock || !isDayOfMonth(dayMs, day)) return null;
  const withinDayMs = ((utc[0] * 60 + utc[1]) * 60 + utc[2]) * 1_000;
  return sinceEpoch(dayMs + withinDayMs + Math.floor(Number(`0.${fraction}`) * 1_000) - offsetMs);
}

const isDayOfMonth = (dayMs: number, day: string): boolean => new Date(dayMs).getUTCDate() === Number(day);

/** Whether a date such as "2026-01-05" exists: Date.parse reads the 30th of February as the 2nd of March. */
export const isCalendarDate = (date: string): boolean => isDayOfMonth(Date.parse(date), date.slice(-2));

/** An ISO 8601 time. A space may stand for its T. */
const isoForm = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)?(Z|[+-]\d\d(?::?\d\d)?)?$/i;

/** Each unit of a number since 1970 begins here. Smaller numbers are seconds. */
const units = [
  { from: 1e17, perMs: 1e6 },
  { from: 1e14, perMs: 1e3 },
  { from: 1e11, perMs: 1 },
  { from: 0, perMs: 1e-3 },
] as const;

/** A number of seconds with milliseconds can be read as slightly less: 1767614400.123 has no exact binary form. */
const roundingMs = 1e-3;

/** The instant of a value as logs write it; null for any other value. Without an offset it is in UTC. */
export function instantMs(value: unknown): number | null {
  if (typeof value === "number" || (typeof value === "string" && /^\d+(?:\.\d+)?$/.test(value))) {
    const number = Number(value);
    const unit = units.find(({ from }) => number >= from);
    return unit === undefined ? null : sinceEpoch(Math.floor(number / unit.perMs + roundingMs));
  }
  if (typeof value !== "string") return null;
  const [iso, zone] = isoForm.exec(value.trim()) ?? [];
  if (iso === undefined) return clockTimeMs(value.trim());
  const local = iso
    .slice(0, iso.length - (zone?.length ?? 0))
    .replace(" ", "T")
    .replace(",", ".");
  const [date = "", time = "00:00"] = local.split("T");
  if (!isCalendarDate(date)) return null;
  const offset = (zone ?? "Z")
    .toUpperCase()
    .replace(/^([+-]\d\d):?(\d\d)?$/, (_, hours, minutes = "00") => `${hours}:${minutes}`);
  return sinceEpoch(Date.parse(`${date}T${time}${offset}`));
}

/** The end of the year 3899. The engine decides until the year 4199, and retries can come 200 years later. */
export const latestStartMs = Date.UTC(3900, 0, 1) - 1;

const sinceEpoch = (atMs: number): number | null => (atMs >= 0 && atMs <= latestStartMs ? atMs : null);
