/** The version of Headgate: the files that state it, and the next one. */
import { CommandError } from "./command.ts";

interface VersionPlace {
  readonly file: string;
  /** Its group is the version. */
  readonly pattern: RegExp;
}

/** package.json is the first. Tests compare the others with it. */
export const versionPlaces: readonly VersionPlace[] = [
  { file: "package.json", pattern: /^ {2}"version": "([^"]*)"/m },
  { file: "package-lock.json", pattern: /^ {2}"version": "([^"]*)"/m },
  { file: "package-lock.json", pattern: /^ {6}"version": "([^"]*)"/m },
  { file: "src/http/wire/version.ts", pattern: /^export const packageVersion = "([^"]*)";/m },
  { file: "src/http/wire/openapi.json", pattern: /^ {4}"version": "([^"]*)"/m },
  { file: "src/http/wire/admin-openapi.json", pattern: /^ {4}"version": "([^"]*)"/m },
];

export type ReadFile = (file: string) => string;

/**
 * The version that all places state.
 * @throws CommandError when they differ
 */
export function statedVersion(read: ReadFile): string {
  const stated = versionPlaces.map(({ file, pattern }) => ({
    file,
    version: pattern.exec(read(file))?.[1],
  }));
  const [first] = stated;
  const other = stated.find(({ version }) => version === undefined || version !== first?.version);
  if (first?.version !== undefined && other === undefined) return first.version;
  throw new CommandError(
    `${other?.file ?? "package.json"}: expected the version ${first?.version ?? "x.y.z"} of package.json, got ${other?.version ?? "none"}.`,
  );
}

/** The texts of all files that state the version, with another version. */
export function filesWithVersion(read: ReadFile, version: string): Map<string, string> {
  const texts = new Map<string, string>();
  for (const { file, pattern } of versionPlaces) {
    const text = texts.get(file) ?? read(file);
    texts.set(
      file,
      text.replace(pattern, (line, old: string) => line.replace(`"${old}"`, `"${version}"`)),
    );
  }
  return texts;
}

const bumps = ["patch", "minor", "major"] as const;
export type Bump = (typeof bumps)[number];

type Numbers = readonly [major: number, minor: number, patch: number];

function numbersOf(version: string): Numbers | null {
  const match = /^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)$/.exec(version);
  return match === null ? null : [Number(match[1]), Number(match[2]), Number(match[3])];
}

/**
 * The version that the argument of `npm run release` names.
 * @throws CommandError when it names none, or one that is not greater than the current one
 */
export function nextVersion(current: string, argument: string | undefined): string {
  const numbers = numbersOf(current);
  if (numbers === null) {
    throw new CommandError(`package.json: expected a version such as 0.2.0, got "${current}".`);
  }
  const bump = bumps.find((each) => each === argument);
  if (bump !== undefined) return bumped(numbers, bump);
  const next = numbersOf(argument ?? "");
  if (argument === undefined || next === null) {
    throw new CommandError(
      `Expected patch, minor, major, or a version such as 0.2.0, got ${argument === undefined ? "nothing" : `"${argument}"`}.`,
    );
  }
  if (bumpBetween(numbers, next) === null) {
    throw new CommandError(`Expected a version greater than ${current}, which package.json states, got ${argument}.`);
  }
  return argument;
}

function bumped([major, minor, patch]: Numbers, bump: Bump): string {
  if (bump === "major") return `${major + 1}.0.0`;
  return bump === "minor" ? `${major}.${minor + 1}.0` : `${major}.${minor}.${patch + 1}`;
}

/** The part of the version that grows; null if none does. */
function bumpBetween(from: Numbers, to: Numbers): Bump | null {
  const index = to.findIndex((number, place) => number !== from[place]);
  if (index < 0 || (to[index] ?? 0) < (from[index] ?? 0)) return null;
  return (["major", "minor", "patch"] as const)[index] ?? null;
}

/** Whether a release may contain breaking changes: a minor version below 1.0.0, and a major version from then on. */
export function mayBreak(from: string, to: string): boolean {
  const [before, after] = [numbersOf(from), numbersOf(to)];
  if (before === null || after === null) return false;
  const bump = bumpBetween(before, after);
  return bump === "major" || (bump === "minor" && before[0] === 0);
}
