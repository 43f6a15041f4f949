/** Time zones by name: their canonical spelling, and their offsets from UTC. */
// Offsets are computed of instants that are given; none asks what time it is.
// oxlint-disable no-restricted-globals

/** The canonical spelling of each name that was read, by the name in lower case. Only names that the runtime knows are kept: about 600. */
const spellings = new Map<string, string>();

/**
 * The same spelling for every letter case of a name; null for a name that the runtime does not know. Offsets such as
 * `+01:00` are not names. An alias such as `Asia/Kolkata` stays an alias: the zone that it stands for differs between
 * runtimes, and stored states are found by the name.
 */
export function canonicalTimeZone(name: string): string | null {
  // Some letters beyond ASCII are letters of ASCII in lower case.
  if (!/^[a-z][a-z0-9_/+-]*$/i.test(name)) return null;
  const folded = name.toLowerCase();
  const known = spellings.get(folded);
  if (known !== undefined) return known;
  const zone = zoneOf(folded);
  if (zone === null) return null;
  // The runtime reports the spelling of a zone, but not that of an alias.
  const spelling = zone.toLowerCase() === folded ? zone : capitalized(folded);
  spellings.set(folded, spelling);
  return spelling;
}

function zoneOf(name: string): string | null {
  try {
    return new Intl.DateTimeFormat("en", { timeZone: name }).resolvedOptions().timeZone;
  } catch {
    return null;
  }
}

/** `asia/kolkata` as `Asia/Kolkata`, `us/pacific` as `US/Pacific`. */
const capitalized = (folded: string): string =>
  folded
    .replace(inCapitals, (word) => word.toUpperCase())
    .replace(/(?<![a-z])[a-z]/g, (letter) => letter.toUpperCase())
    .replace(compounds, (...[, first, second = ""]: string[]) => {
      return `${first}${second.charAt(0).toUpperCase()}${second.slice(1)}`;
    });

/** A short word at the beginning, but for `Etc`, and the abbreviations that aliases have elsewhere. */
const inCapitals =
  /^(?!etc)[a-z]{2,3}(?![a-z])|(?<![a-z])(?:act|cdt|chat|edt|gmt|in|lhi|mdt|nsw|pdt|su|uct|utc)(?![a-z])/g;

/** The names with a capital within a word. */
const compounds = /(?<=\/)(Baja|Comod|De|Easter)(island|noronha|norte|rivadavia|sur)$/;

/** Each takes 30 to 50 KB, and takes about 0.1 ms to make again. */
const mostFormatters = 32;
const formatters = new Map<string, Intl.DateTimeFormat>();

/** What the clocks of a time zone show at an instant, less what they show in UTC. */
export function offsetMs(timezone: string, atMs: number): number {
  // As in "5/19/2026, GMT-08:00"; "GMT" alone is UTC.
  const text = formatterFor(timezone.toLowerCase()).format(atMs);
  const [, sign, hours, minutes, seconds = 0] =
    /GMT([+-])(\d\d):(\d\d)(?::(\d\d))?$/.exec(text) ?? [];
  const offset = (Number(hours) * 3_600 + Number(minutes) * 60 + Number(seconds)) * 1_000;
  return sign === undefined ? 0 : sign === "-" ? -offset : offset;
}

/** The least recently used one makes room for another. */
function formatterFor(folded: string): Intl.DateTimeFormat {
  const known = formatters.get(folded);
  const formatter =
    known ?? new Intl.DateTimeFormat("en-US", { timeZone: folded, timeZoneName: "longOffset" });
  formatters.delete(folded);
  formatters.set(folded, formatter);
  const [oldest] = formatters.keys();
  if (formatters.size > mostFormatters && oldest !== undefined) formatters.delete(oldest);
  return formatter;
}
