/** Helpers for the forms in which values are written, from which the JSON schema is generated. The Worker calls none. */

/** A regular expression for a text in any case, since those of JSON schemas have no flags. */
export const anyCase = (text: string): string =>
  text.replace(/[a-z]/gi, (letter) => `[${letter.toLowerCase()}${letter.toUpperCase()}]`);

/** A regular expression for any of these names, in any case. A plural that is among the names is an optional `s`. */
export const anyName = (names: readonly string[]): string =>
  names
    .filter((name) => !names.some((singular) => name === `${singular}s`))
    .map((name) => anyCase(name) + (names.includes(`${name}s`) ? "[sS]?" : ""))
    .join("|");
