/** Time zones by name: their canonical spelling, and their offsets from UTC. */
// `Intl` formats given instants only; nothing here reads the clock.
// oxlint-disable no-restricted-globals

/** Canonical spellings by name in lower case. Only names that the runtime knows are cached: about 600. */
const spellings = new Map<string, string>();

/**
 * The canonical spelling of a name in any letter case; null for a name that the runtime does not know, and for offsets
 * such as `+01:00`. An alias such as `Asia/Kolkata` stays an alias: runtimes differ in the zone they resolve it to, and
 * the name is part of the identity of stored states.
 */
export function canonicalTimeZone(name: string): string | null {
  // Without this check, a non-ASCII letter such as the Kelvin sign would become an ASCII letter in lower case.
  if (!/^[a-z][a-z0-9_/+-]*$/i.test(name)) return null;
  const folded = name.toLowerCase();
  const known = spellings.get(folded);
  if (known !== undefined) return known;
  const zone = zoneOf(folded);
  if (zone === null) return null;
  // For an alias, the runtime reports the zone instead of the alias's spelling.
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

/** Words written in capitals: a short first word other than `Etc`, and abbreviations within aliases. */
const inCapitals =
  /^(?!etc)[a-z]{2,3}(?![a-z])|(?<![a-z])(?:act|cdt|chat|edt|gmt|in|lhi|mdt|nsw|pdt|su|uct|utc)(?![a-z])/g;

/** Names with a capital letter within a word. */
const compounds = /(?<=\/)(Baja|Comod|De|Easter)(island|noronha|norte|rivadavia|sur)$/;

/** A formatter takes 30 to 50 KB of memory and about 0.1 ms to create. */
const mostFormatters = 32;
const formatters = new Map<string, Intl.DateTimeFormat>();

/** The offset of a time zone from UTC at an instant. */
export function offsetMs(timezone: string, atMs: number): number {
  // The text is such as "5/19/2026, GMT-08:00"; "GMT" alone is UTC.
  const text = formatterFor(timezone.toLowerCase()).format(atMs);
  const [, sign, hours, minutes, seconds = 0] = /GMT([+-])(\d\d):(\d\d)(?::(\d\d))?$/.exec(text) ?? [];
  const offset = (Number(hours) * 3_600 + Number(minutes) * 60 + Number(seconds)) * 1_000;
  return sign === undefined ? 0 : sign === "-" ? -offset : offset;
}

/** Evicts the least recently used formatter. */
function formatterFor(folded: string): Intl.DateTimeFormat {
  const known = formatters.get(folded);
  const formatter = known ?? new Intl.DateTimeFormat("en-US", { timeZone: folded, timeZoneName: "longOffset" });
  formatters.delete(folded);
  formatters.set(folded, formatter);
  const [oldest] = formatters.keys();
  if (formatters.size > mostFormatters && oldest !== undefined) formatters.delete(oldest);
  return formatter;
}
