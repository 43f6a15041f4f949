/**
 * `npm run release -- <version>`: tests and packs a version, then makes its commit and its tag. It publishes and pushes
 * nothing, and restores everything if a step fails.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { CommandError, parseArgument, runCommand } from "./command.ts";
import { git, planRelease, type ReleasePlan, statedRelease, tagOf } from "./release-plan.ts";
import { folderOf, pack, release } from "./release-run.ts";

const { argument, values } = parseArgument("<patch|minor|major|x.y.z>", {
  "dry-run": { type: "boolean", about: "Check, and print what would change." },
  "pack-only": {
    type: "boolean",
    about: "Pack the version that package.json states, without a commit or a tag.",
  },
});

await runCommand(async () => {
  if (values["pack-only"] === true) {
    if (argument !== undefined || values["dry-run"] === true) {
      throw new CommandError("--pack-only: expected no version and no --dry-run.");
    }
    const { version, notes } = statedRelease();
    await pack(version, notes);
    console.log(packedLines(version).join("\n"));
    return;
  }
  const plan = planRelease(argument, new Date());
  if (values["dry-run"] === true) {
    console.log(dryRunText(plan));
    return;
  }
  await release(plan);
  console.log(releasedText(plan));
});

function dryRunText({ current, version, tag, head, files, notes }: ReleasePlan): string {
  return [
    `Would release ${version} after ${current}: commit and tag ${tag} on ${head.slice(0, 7)}. Changed files:`,
    ...files.map(({ file }) => `  ${file}`),
    `Changelog of ${version}:`,
    "",
    notes,
    "",
    "Nothing was changed, tested or packed.",
  ].join("\n");
}

function releasedText({ version, tag }: ReleasePlan): string {
  return [
    `Released ${version} on this machine: commit ${git("rev-parse", "--short", "HEAD")} and tag ${tag}.`,
    ...packedLines(version),
    "",
    "Nothing was pushed or published. To publish, push both. The workflow Release then tests the tag and publishes it:",
    `  git push --atomic origin main ${tag}`,
    "To undo the release before the push:",
    `  git tag -d ${tag} && git reset --keep HEAD~1`,
  ].join("\n");
}

function packedLines(version: string): string[] {
  const folder = folderOf(version);
  const sums = readFileSync(join(folder, "SHA256SUMS"), "utf8").trimEnd().split("\n");
  return [`Packed ${tagOf(version)} into ${folder}:`, ...sums.map((sum) => `  ${sum}`)];
}
