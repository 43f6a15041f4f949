/** Generates different spellings of one path. */
import * as fc from "fast-check";

const escaped = (text: string, inUpperCase: boolean): string =>
  [...new TextEncoder().encode(text)]
    .map((byte) => byte.toString(16).padStart(2, "0"))
    .map((hex) => `%${inUpperCase ? hex.toUpperCase() : hex}`)
    .join("");

/** Characters that change the meaning of a URL unless they are escaped. */
const isSpecial = (text: string): boolean => text <= " " || /[/\\%?#]/.test(text);

const character = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(...Array.from("abzAZ09-._~:@!$&'()*+,;=|^[]{}\"<>`")) },
  { weight: 2, arbitrary: fc.constantFrom(...Array.from("/\\%?# \t")) },
  fc.string({ unit: "grapheme", minLength: 1, maxLength: 1 }),
);

/** A decoded segment other than `.` and `..`. */
export const segment: fc.Arbitrary<string> = fc
  .string({ unit: character, minLength: 1, maxLength: 5 })
  .filter((text) => text.isWellFormed() && !/^\.{1,2}$/.test(text));

export const segments = fc.array(segment, { minLength: 1, maxLength: 4 });

/** A segment in which some characters are escaped without need. */
const spelled = (text: string): fc.Arbitrary<string> =>
  fc.tuple(...Array.from(text).map(() => fc.tuple(fc.boolean(), fc.boolean()))).map((choices) =>
    Array.from(text)
      .map((each, index) => {
        const [isEscaped = false, inUpperCase = false] = choices[index] ?? [];
        return isEscaped || isSpecial(each) ? escaped(each, inUpperCase) : each;
      })
      .join(""),
  );

const slashes = fc.constantFrom("/", "/", "//", "///", "/./", "/%2e/", "/z/../", "/z/%2E%2e/");

/** One spelling of a path that has these segments. */
export const spelling = (decoded: readonly string[]): fc.Arbitrary<string> =>
  fc
    .tuple(
      fc.tuple(...decoded.map((each) => fc.tuple(slashes, spelled(each)))),
      fc.constantFrom("", "/", "//", "/.", "/z/.."),
    )
    .map(([parts, end]) => `${parts.map((part) => part.join("")).join("")}${end}`);
