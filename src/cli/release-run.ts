/** Makes a release: tests, package, commit and tag. */
import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { CommandError } from "./command.ts";
import { git, type ReleasePlan } from "./release-plan.ts";

/**
 * Restores everything if a step fails.
 * @throws CommandError when a step fails, or on a signal
 */
export async function release(plan: ReleasePlan): Promise<void> {
  const { version, tag, files } = plan;
  const progress = { isTagged: false };
  try {
    for (const { file, after } of files) writeFileSync(file, after);
    await run("npm", "test");
    await pack(version, plan.notes);
    const paths = files.map(({ file }) => file);
    await run("git", "commit", "--quiet", "-m", `Release ${version}`, "--", ...paths);
    await run("git", "tag", "-a", tag, "-m", `Headgate ${version}`);
    progress.isTagged = true;
    stopIfAsked();
  } catch (error) {
    restore(plan, progress.isTagged);
    if (error instanceof CommandError) {
      throw new CommandError(`${error.message}\nEverything is as it was before.`, { cause: error });
    }
    throw error;
  }
}

/** The working tree was clean, so that HEAD, the index and the changed files are all there is to restore. */
function restore({ head, tag, version, files }: ReleasePlan, isTagged: boolean): void {
  if (isTagged) git("tag", "-d", tag);
  git("reset", "--quiet", head);
  for (const { file, before } of files) writeFileSync(file, before);
  rmSync(folderOf(version), { recursive: true, force: true });
}

/** The folder for the package. git ignores it. */
export const folderOf = (version: string): string => join("dist", "release", version);

/** Writes the package, its checksums and the notes of the release. `prepack` builds what the package contains. */
export async function pack(version: string, notes: string): Promise<void> {
  const folder = folderOf(version);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  await run("npm", "pack", "--silent", "--pack-destination", folder);
  const sums = packagesIn(folder).map((file) => `${sha256(join(folder, file))}  ${file}\n`);
  if (sums.length === 0) throw new CommandError(`npm pack wrote no package to ${folder}.`);
  writeFileSync(join(folder, "SHA256SUMS"), sums.join(""));
  writeFileSync(join(folder, "notes.md"), `${notes}\n`);
}

const packagesIn = (folder: string): string[] => readdirSync(folder).filter((file) => file.endsWith(".tgz"));

const sha256 = (file: string): string => createHash("sha256").update(readFileSync(file)).digest("hex");

let child: ChildProcess | null = null;
let stoppedBy: NodeJS.Signals | null = null;
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.on(signal, () => {
    stoppedBy ??= signal;
    child?.kill(signal);
  });
}

/** @throws CommandError when the program fails, or when this process was asked to stop */
async function run(program: string, ...words: readonly string[]): Promise<void> {
  stopIfAsked();
  const started = spawn(program, words, { stdio: "inherit" });
  child = started;
  await once(started, "exit");
  child = null;
  stopIfAsked();
  if (started.exitCode === 0) return;
  throw new CommandError(`${[program, ...words.slice(0, 2)].join(" ")} failed.`);
}

function stopIfAsked(): void {
  if (stoppedBy !== null) throw new CommandError(`Stopped by ${stoppedBy}.`);
}
