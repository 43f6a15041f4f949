/**
 * `npm run release -- <version>`: tests and packs a version, then makes its commit and its tag. It publishes and pushes
 * nothing. If a step fails, it restores the files of the release, and names others that the step has changed. `npm version`, `npm pack` and git do the work.
 */
import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { CommandError, parseArgument, runCommand } from "./command.ts";

/** The files that state the version beside package.json and package-lock.json, which `npm version` writes. */
const versionFiles = ["src/http/wire/version.ts", "src/http/wire/openapi.json", "src/http/wire/admin-openapi.json"];
const changedFiles = ["package.json", "package-lock.json", ...versionFiles, "CHANGELOG.md"];

const { argument, values } = parseArgument("<patch|minor|major|x.y.z>", {
  "dry-run": { type: "boolean", about: "Check, and print what would change." },
  "pack-only": { type: "boolean", about: "Pack the version that package.json states, without a commit or a tag." },
});

const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.on(signal, () => stop.abort(new CommandError(`Stopped by ${signal}.`)));
}

const read = (file: string): string => readFileSync(file, "utf8");
const git = (...words: readonly string[]): string => execFileSync("git", words, { encoding: "utf8" }).trimEnd();
/** The folder for the package. git ignores it. */
const folderOf = (version: string): string => `dist/release/${version}`;

await runCommand(async () => {
  const [, current = ""] = /"version": "([^"]+)"/.exec(read("package.json")) ?? [];
  if (values["pack-only"] === true) {
    if (argument !== undefined || values["dry-run"] === true) {
      throw new CommandError("--pack-only: expected no version and no --dry-run.");
    }
    console.log(await pack(current, checkedNotes(current)));
    return;
  }
  const version = nextVersion(current, argument);
  const tag = `v${version}`;
  const notes = checkedNotes("Unreleased");
  const problems = problemsOf(notes, current, version);
  if (problems.length > 0) throw new CommandError([`${version} cannot be released:`, ...problems].join("\n  "));
  const head = git("rev-parse", "HEAD");
  if (values["dry-run"] === true) {
    console.log(`Would release ${version} after ${current}: commit and tag ${tag} on ${head.slice(0, 7)}. Changed files:
  ${changedFiles.join("\n  ")}
Changelog of ${version}:\n\n${notes}\n\nNothing was changed, tested or packed.`);
    return;
  }
  try {
    await run("npm", "version", version, "--no-git-tag-version", "--ignore-scripts", "--silent");
    writeVersion(current, version);
    await run("npm", "test");
    const packed = await pack(version, notes);
    await run("git", "commit", "--quiet", "-m", `Release ${version}`, "--", ...changedFiles);
    await run("git", "tag", "-a", tag, "-m", `Headgate ${version}`);
    console.log(`Released ${version} on this machine: commit ${git("rev-parse", "--short", "HEAD")} and tag ${tag}.
${packed}\n
Nothing was pushed or published. To publish, push both. The workflow Release then tests the tag and publishes it:
  git push --atomic origin main ${tag}
To undo the release before the push:
  git tag -d ${tag} && git reset --keep HEAD~1`);
  } catch (error) {
    // Deleting the tag and resetting the files loses nothing: before the release, the tag did not exist and the working
    // tree was clean.
    if (git("tag", "--list", tag) !== "") git("tag", "-d", tag);
    git("reset", "--quiet", head);
    git("checkout", "--quiet", "--", ...changedFiles);
    rmSync(folderOf(version), { recursive: true, force: true });
    if (!(error instanceof CommandError)) throw error;
    throw new CommandError(`${error.message}\n${restoredState()}`, { cause: error });
  }
});

/** The version that the argument names. It must be greater than the current one. */
function nextVersion(current: string, word: string | undefined): string {
  const [major = 0, minor = 0, patch = 0] = current.split(".").map(Number);
  if (word === "major") return `${major + 1}.0.0`;
  if (word === "minor") return `${major}.${minor + 1}.0`;
  if (word === "patch") return `${major}.${minor}.${patch + 1}`;
  if (word === undefined || !/^(?:0|[1-9]\d*)(?:\.(?:0|[1-9]\d*)){2}$/.test(word)) {
    const got = word === undefined ? "nothing" : `"${word}"`;
    throw new CommandError(`Expected patch, minor, major, or a version such as 0.2.0, got ${got}.`);
  }
  if (word.localeCompare(current, "en", { numeric: true }) > 0) return word;
  throw new CommandError(`Expected a version greater than ${current}, which package.json states, got ${word}.`);
}

/** Changed and new files. */
function uncommittedPaths(): string[] {
  const changes = git("status", "--porcelain").split("\n").filter(Boolean);
  return changes.map((line) => line.replace(/^\s*\S+\s+/, ""));
}

/** The state after a failed release, for its message. Never throws, so that the message of the failed step is not lost. */
function restoredState(): string {
  try {
    const left = uncommittedPaths().join(", ");
    const state = left === "" ? "Everything is" : `A step has changed ${left}, which stays. Everything else is`;
    return `${state} as it was before.`;
  } catch {
    return "The files of the release are as they were before. Other files may have changed, since git status failed.";
  }
}

/** The reasons that forbid the release. */
function problemsOf(notes: string, current: string, version: string): string[] {
  const paths = uncommittedPaths();
  const branch = git("rev-parse", "--abbrev-ref", "HEAD");
  // Breaking changes need a new minor version below 1.0.0, and a new major version from 1.0.0 on.
  const [bump, parts] = current.startsWith("0.") ? ["minor", 2] : ["major", 1];
  const isBumped = current.split(".", parts).join(".") !== version.split(".", parts).join(".");
  const isBreaking = /\*\*Breaking\*\*|^### Removed$/m.test(notes);
  return [
    ...(branch === "main" ? [] : [`Expected the branch main, got ${branch}.`]),
    ...(paths.length === 0 ? [] : [`Expected no uncommitted changes, got ${paths.length}: ${paths.join(", ")}.`]),
    ...(git("tag", "--list", `v${version}`) === "" ? [] : [`The tag v${version} exists.`]),
    ...(isBumped || !isBreaking
      ? []
      : [`The changelog has breaking changes, so expected a new ${bump} version, got ${version} after ${current}.`]),
  ];
}

/** The section of the changelog, without its heading and without the links at the end of the page. */
function checkedNotes(name: string): string {
  const sections = read("CHANGELOG.md").split(/^## /m);
  const [, ...lines] = sections.find((section) => section.startsWith(`[${name}]`))?.split("\n") ?? [];
  const notes = lines.filter((line) => !/^\[[^\]]+\]: /.test(line)).join("\n");
  const upgrade = notes.split(/^### /m).find((part) => part.startsWith("Upgrade\n"));
  if (upgrade?.includes("**Stored state:**") === true) return notes.trim();
  throw new CommandError(`CHANGELOG.md: expected a section "## [${name}]" with a part "### Upgrade" and its entry
"**Stored state:**", which says what an upgrade does to stored state.`);
}

/** Writes the version where `npm version` does not. In the changelog, "Unreleased" becomes the version. */
function writeVersion(current: string, version: string): void {
  for (const file of versionFiles) replaceIn(file, `"${current}"`, `"${version}"`);
  const date = new Date().toISOString().slice(0, 10);
  replaceIn("CHANGELOG.md", "\n## [Unreleased]\n", `$&\n## [${version}] - ${date}\n`);
  // The anchor that GitHub makes from the heading.
  const link = `[${version}]: #${version.replaceAll(".", "")}---${date}\n`;
  replaceIn("CHANGELOG.md", "[Unreleased]: #unreleased\n", `$&${link}`);
}

function replaceIn(file: string, part: string, text: string): void {
  const before = read(file);
  if (!before.includes(part)) throw new CommandError(`${file}: expected ${part.trim()}.`);
  writeFileSync(file, before.replace(part, text));
}

/** Writes the package, its checksum and the notes of the release. `prepack` builds what the package contains. */
async function pack(version: string, notes: string): Promise<string> {
  const folder = folderOf(version);
  const file = `headgate-${version}.tgz`;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  await run("npm", "pack", "--silent", "--pack-destination", folder);
  const sum = createHash("sha256")
    .update(readFileSync(`${folder}/${file}`))
    .digest("hex");
  writeFileSync(`${folder}/SHA256SUMS`, `${sum}  ${file}\n`);
  writeFileSync(`${folder}/notes.md`, `${notes}\n`);
  return `Packed v${version} into ${folder}:\n  ${sum}  ${file}`;
}

/** Runs a program until it ends. Fails when the program fails, or when this process was asked to stop. */
async function run(program: string, ...words: readonly string[]): Promise<void> {
  stop.signal.throwIfAborted();
  const child = spawn(program, words, { stdio: "inherit", signal: stop.signal });
  const code = await new Promise((resolve) => child.on("error", () => undefined).on("close", resolve));
  stop.signal.throwIfAborted();
  if (code !== 0) throw new CommandError(`${[program, ...words.slice(0, 2)].join(" ")} failed.`);
}
