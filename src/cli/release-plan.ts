/** Plans a release: its version and the files that it changes, or the reasons that forbid it. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import {
  changelogSection,
  isBreaking,
  releasedChangelog,
  sectionProblems,
  unreleasedProblems,
  unreleasedSection,
} from "./changelog.ts";
import { CommandError, messageOf } from "./command.ts";
import { filesWithVersion, mayBreak, nextVersion, statedVersion } from "./version.ts";

export interface ReleasePlan {
  readonly current: string;
  readonly version: string;
  readonly tag: string;
  /** The commit that the release is made from. */
  readonly head: string;
  /** The files that change, with their texts before and after. */
  readonly files: readonly FileChange[];
  /** The section of the changelog. */
  readonly notes: string;
}

export interface FileChange {
  readonly file: string;
  readonly before: string;
  readonly after: string;
}

const branch = "main";

export const tagOf = (version: string): string => `v${version}`;

/** @throws CommandError with every reason why the release cannot be made */
export function planRelease(argument: string | undefined, now: Date): ReleasePlan {
  const current = statedVersion(read);
  const version = nextVersion(current, argument);
  const tag = tagOf(version);
  const changelog = existsSync("CHANGELOG.md") ? read("CHANGELOG.md") : "";
  const problems = [
    ...repositoryProblems(tag),
    ...unreleasedProblems(changelog),
    ...bumpProblems(changelog, current, version),
  ];
  if (problems.length > 0) {
    const lines = problems.map((problem) => `  ${problem}`);
    throw new CommandError([`${version} cannot be released:`, ...lines].join("\n"));
  }
  const texts = filesWithVersion(read, version);
  texts.set("CHANGELOG.md", releasedChangelog(changelog, version, now.toISOString().slice(0, 10)));
  return {
    current,
    version,
    tag,
    head: git("rev-parse", "HEAD"),
    files: [...texts].map(([file, after]) => ({ file, before: read(file), after })),
    notes: unreleasedSection(changelog)?.text ?? "",
  };
}

/**
 * The version that package.json states, with its section of the changelog.
 * @throws CommandError when the changelog has no valid section for it
 */
export function statedRelease(): { readonly version: string; readonly notes: string } {
  const version = statedVersion(read);
  const section = changelogSection(read("CHANGELOG.md"), version);
  if (section === null) {
    throw new CommandError(`CHANGELOG.md: expected a section "## [${version}]", the version of package.json.`);
  }
  const problems = sectionProblems(section);
  if (problems.length > 0) throw new CommandError(problems.join("\n"));
  return { version, notes: section.text };
}

function repositoryProblems(tag: string): string[] {
  const changes = git("status", "--porcelain").split("\n").filter(Boolean);
  const onBranch = git("rev-parse", "--abbrev-ref", "HEAD");
  return [
    ...(onBranch === branch ? [] : [`Expected the branch ${branch}, got ${onBranch}.`]),
    ...(changes.length === 0 ? [] : [`Expected no uncommitted changes, got ${changes.length}: ${listed(changes)}.`]),
    ...(git("tag", "--list", tag) === "" ? [] : [`The tag ${tag} exists.`]),
  ];
}

/** The paths in lines of `git status --porcelain`. */
function listed(changes: readonly string[]): string {
  const paths = changes.slice(0, 5).map((line) => line.replace(/^\s*\S+\s+/, ""));
  return [...paths, ...(changes.length > paths.length ? ["…"] : [])].join(", ");
}

function bumpProblems(changelog: string, current: string, version: string): string[] {
  const section = unreleasedSection(changelog);
  if (section === null || !isBreaking(section) || mayBreak(current, version)) return [];
  const expected = current.startsWith("0.") ? "minor" : "major";
  return [
    `CHANGELOG.md, Unreleased: it has breaking changes, so expected a new ${expected} version, got ${version} after ${current}.`,
  ];
}

const read = (file: string): string => readFileSync(file, "utf8");

/** The output of git. @throws CommandError with the message of git */
export function git(...words: readonly string[]): string {
  try {
    return execFileSync("git", words, {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
    }).trimEnd();
  } catch (error) {
    const stderr: unknown = Reflect.get(Object(error), "stderr");
    const message = typeof stderr === "string" && stderr !== "" ? stderr : messageOf(error);
    throw new CommandError(`git ${words.join(" ")}: ${message.trim()}`, { cause: error });
  }
}
