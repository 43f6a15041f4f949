/**
 * `npm run release` in a small repository: what it creates, when it refuses, and what it leaves behind after a failure.
 */
import { createHash } from "node:crypto";
import { chmodSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  addition,
  builtBy,
  changelogWith,
  releaseRepository,
  type ReleaseRepository,
  testedBy,
  upgradeNote,
} from "./release-repository.ts";

let repository: ReleaseRepository;
beforeEach(() => {
  repository = releaseRepository();
});
afterEach(() => repository.remove());

const today = (): string => new Date().toISOString().slice(0, 10);

/** The versions in all files that state a version. */
const statedVersions = (): string[] =>
  [
    ["package.json", "package-lock.json", "src/http/wire/version.ts"],
    ["src/http/wire/openapi.json", "src/http/wire/admin-openapi.json"],
  ]
    .flat()
    .flatMap((file) => [...repository.read(file).matchAll(/[vV]ersion"?(?: =|:) "([^"]+)"/g)])
    .map(([, version = ""]) => version);

/** Expects a refusal that leaves the repository unchanged. */
async function expectRefusal(words: readonly string[], ...texts: readonly string[]): Promise<void> {
  const before = repository.state();
  const { exitCode, output } = await repository.release(words);
  expect([exitCode, output]).toEqual([1, expect.stringContaining(texts[0] ?? "")]);
  for (const text of texts) expect(output).toContain(text);
  expect(output).not.toContain("    at ");
  expect(repository.state()).toBe(before);
}

describe("a release", () => {
  it("npm run release changes every version and the changelog in one commit with an annotated tag, and packs the package", async () => {
    const dates = [today()];
    const { exitCode, output } = await repository.release(["minor"]);
    dates.push(today());
    expect([exitCode, output]).toEqual([0, expect.stringContaining("Released 0.2.0 on this")]);
    expect(statedVersions()).toEqual(Array(6).fill("0.2.0"));
    expect(repository.git("log", "-1", "--format=%s")).toBe("Release 0.2.0");
    expect(repository.git("status", "--porcelain")).toBe("");
    expect(repository.git("cat-file", "-t", "v0.2.0")).toBe("tag");
    expect(repository.git("rev-parse", "v0.2.0^{commit}")).toBe(repository.git("rev-parse", "HEAD"));
    const [, date = ""] = /^## \[0\.2\.0\] - (.+)$/m.exec(repository.read("CHANGELOG.md")) ?? [];
    expect(dates).toContain(date);
    const released = changelogWith(`## [0.2.0] - ${date}\n\n${addition}`);
    const link = `[Unreleased]: #unreleased\n[0.2.0]: #020---${date}\n`;
    expect(repository.read("CHANGELOG.md")).toBe(released.replace("[Unreleased]: #unreleased\n", link));
    expect(output).toContain("git push --atomic origin main v0.2.0");
  });

  it("the packed package is built from the new version, and its checksum and release notes lie in the same folder", async () => {
    expect(await repository.release(["0.3.0"])).toMatchObject({ exitCode: 0 });
    const packed = join(repository.folder, "dist/release/0.3.0/headgate-0.3.0.tgz");
    const sum = createHash("sha256").update(readFileSync(packed)).digest("hex");
    expect(repository.read("dist/release/0.3.0/SHA256SUMS")).toBe(`${sum}  headgate-0.3.0.tgz\n`);
    expect(repository.read("dist/release/0.3.0/notes.md")).toBe(addition);
    expect(repository.read("lib/a.js")).toContain('"0.3.0"');
  });

  it("the commands that the release prints for undoing it restore the commit before the release", async () => {
    const head = repository.git("rev-parse", "HEAD");
    const { output } = await repository.release(["minor"]);
    const [, tag = ""] = /^ {2}git tag -d (\S+) && git reset --keep HEAD~1$/m.exec(output) ?? [];
    repository.git("tag", "-d", tag);
    repository.git("reset", "--keep", "HEAD~1");
    expect(repository.git("rev-parse", "HEAD")).toBe(head);
  });

  it("a second release needs new entries in the changelog", async () => {
    expect(await repository.release(["minor"])).toMatchObject({ exitCode: 0 });
    await expectRefusal(["minor"], "CHANGELOG.md: expected");
  });

  it("npm run release -- --dry-run prints the changes without making them", async () => {
    const before = repository.state();
    const { exitCode, output } = await repository.release(["minor", "--dry-run"]);
    expect(exitCode).toBe(0);
    expect(output).toContain("Would release 0.2.0 after 0.1.0: commit and tag v0.2.0");
    expect(output).toContain("\n  src/http/wire/admin-openapi.json\n");
    expect(output).toContain("- A thing.");
    expect(repository.state()).toBe(before);
  });

  it("npm run release -- --pack-only packs the version that package.json states, without a commit or a tag", async () => {
    const before = repository.git("rev-parse", "HEAD");
    await expectRefusal(["--pack-only"], 'CHANGELOG.md: expected a section "## [0.1.0]"');
    repository.commit("CHANGELOG.md", changelogWith("").replace("The first.", `${upgradeNote}\nThe first.`));
    const { exitCode, output } = await repository.release(["--pack-only"]);
    expect([exitCode, output]).toEqual([0, expect.stringContaining("Packed v0.1.0 into dist/release/0.1.0:")]);
    expect(repository.read("dist/release/0.1.0/SHA256SUMS")).toContain("headgate-0.1.0.tgz");
    expect(repository.git("rev-parse", "HEAD~1")).toBe(before);
    expect(repository.git("tag", "--list")).toBe("");
  });
});

describe("a release that is refused", () => {
  it("npm run release refuses a missing, an unknown and a second argument", async () => {
    await expectRefusal([], "Expected patch, minor, major, or a version such as 0.2.0, got nothing.");
    await expectRefusal(["huge"], 'got "huge".');
    await expectRefusal(["minor", "0.2.0"], 'Expected one <patch|minor|major|x.y.z>, got "minor 0');
    await expectRefusal(["minor", "--publish"], "Unknown option '--publish'");
    await expectRefusal(["minor", "--pack-only"], "--pack-only: expected no version");
  });

  it("npm run release refuses a version that is not greater than the current one", async () => {
    await expectRefusal(["0.1.0"], "Expected a version greater than 0.1.0");
    await expectRefusal(["0.0.9"], "Expected a version greater than 0.1.0");
  });

  it("npm run release refuses files that state different versions", async () => {
    repository.commit("src/http/wire/version.ts", 'export const packageVersion = "0.0.9";\n');
    await expectRefusal(["minor"], 'src/http/wire/version.ts: expected "0.1.0"');
  });

  it("npm run release reports uncommitted changes, new files, another branch and an existing tag all at once", async () => {
    repository.git("switch", "--quiet", "--create", "other");
    repository.git("tag", "v0.2.0");
    repository.write("src/new.ts", "");
    repository.write("build.cjs", "");
    await expectRefusal(
      ["minor"],
      "0.2.0 cannot be released:",
      "Expected the branch main, got other.",
      "Expected no uncommitted changes, got 2: build.cjs, src/new.ts.",
      "The tag v0.2.0 exists.",
    );
  });

  it("npm run release refuses an empty section Unreleased, and a section without an upgrade note", async () => {
    repository.commit("CHANGELOG.md", changelogWith(""));
    await expectRefusal(["minor"], 'expected a section "## [Unreleased]" with a part "### Upgrade"');
    repository.commit("CHANGELOG.md", changelogWith("### Fixed\n\n- A fault.\n"));
    await expectRefusal(["minor"], 'its entry\n"**Stored state:**"');
  });

  it("npm run release refuses a breaking change in a patch version, and accepts it in a minor version below 1.0.0", async () => {
    const entry = `${upgradeNote}\n### Changed\n\n- **Breaking**: another default.\n`;
    repository.commit("CHANGELOG.md", changelogWith(entry));
    await expectRefusal(["patch"], "The changelog has breaking changes, so expected a new minor version");
    expect(await repository.release(["minor", "--dry-run"])).toMatchObject({ exitCode: 0 });
  });
});

describe("a release whose step fails", () => {
  const restored = "Everything is as it was before.";

  it("after a failing test, npm run release leaves the repository unchanged", async () => {
    repository.commit("package.json", testedBy("node -e 'process.exit(3)'"));
    await expectRefusal(["minor"], "npm test failed.", restored);
  });

  it("npm run release names files that a failing test has changed, and leaves them changed", async () => {
    repository.commit("package.json", testedBy("echo changed > README.md; node -e 'process.exit(3)'"));
    const { exitCode, output } = await repository.release(["minor"]);
    expect([exitCode, output]).toEqual([1, expect.stringContaining("A step has changed README.md, which stays.")]);
    expect(repository.git("status", "--porcelain")).toContain("README.md");
  });

  it("after a failing test, npm run release names the test even if git status fails too", async () => {
    const breakStatus = "git config status.showUntrackedFiles invalid";
    repository.commit("package.json", testedBy(`${breakStatus}; node -e 'process.exit(3)'`));
    const { exitCode, output } = await repository.release(["minor"]);
    expect([exitCode, output]).toEqual([1, expect.stringContaining("npm test failed.")]);
    expect(output).toContain("Other files may have changed, since git status failed.");
    expect(statedVersions()).toEqual(Array(6).fill("0.1.0"));
  });

  it("after a failing build, npm run release leaves the repository unchanged", async () => {
    repository.commit("package.json", builtBy("node -e 'process.exit(3)'"));
    await expectRefusal(["minor"], "npm pack --silent failed.", restored);
  });

  it("after a rejected commit, npm run release leaves the repository unchanged", async () => {
    repository.write(".git/hooks/pre-commit", "#!/bin/sh\nexit 1\n");
    const hook = join(repository.folder, ".git/hooks/pre-commit");
    chmodSync(hook, 0o755);
    await expectRefusal(["minor"], "git commit --quiet failed.", restored);
  });

  it("after a rejected tag, npm run release removes the commit and leaves the repository unchanged", async () => {
    // Git refuses the tag v0.2.0 when a tag exists whose name begins with v0.2.0/.
    repository.git("tag", "v0.2.0/blocked");
    await expectRefusal(["minor"], "git tag -a failed.", restored);
  });

  it("after an interruption, npm run release leaves the repository unchanged", async () => {
    repository.commit("package.json", testedBy(`node -e 'console.log("tests run"); setInterval(() => {}, 1000)'`));
    const before = repository.state();
    const { exitCode, output } = await repository.release(["minor"], {
      text: "\ntests run",
      // Like Ctrl-C, sends the signal to every process of the group.
      call: (pid) => process.kill(-pid, "SIGINT"),
    });
    expect([exitCode, output]).toEqual([1, expect.stringContaining("Stopped by SIGINT.")]);
    expect(output).toContain(restored);
    expect(repository.state()).toBe(before);
  });
});
