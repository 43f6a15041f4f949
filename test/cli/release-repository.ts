/** A small repository that `npm run release` can release, without a remote and without dependencies. */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";

export interface Outcome {
  readonly exitCode: number | null;
  readonly output: string;
}

export interface ReleaseRepository {
  readonly folder: string;
  readonly write: (file: string, text: string) => void;
  readonly read: (file: string) => string;
  readonly git: (...words: readonly string[]) => string;
  /** Writes a file and commits it. */
  readonly commit: (file: string, text: string) => void;
  /** HEAD, the tags, the uncommitted changes, and the files in the folder for packages. */
  readonly state: () => string;
  /**
   * Runs `npm run release` with these arguments.
   * @param whenPrinted called once, when the text has been printed, with the id of the process and of its group
   */
  readonly release: (
    words: readonly string[],
    whenPrinted?: { readonly text: string; readonly call: (pid: number) => void },
  ) => Promise<Outcome>;
  readonly remove: () => void;
}

export const upgradeNote = "### Upgrade\n\n- **Stored state:** kept.\n";

export const addition = `${upgradeNote}\n### Added\n\n- A thing.\n`;

export const changelogWith = (unreleased: string): string =>
  `# Changelog\n\n## [Unreleased]\n\n${unreleased}\n## [0.1.0] - 2026-11-21\n\nThe first.\n\n` +
  "[Unreleased]: #unreleased\n[0.1.0]: #010---2026-11-21\n";

const packageJson = (scripts: object): string =>
  `${JSON.stringify({ name: "headgate", version: "0.1.0", private: true, files: ["lib"], scripts }, null, 2)}\n`;

const passing = { test: "node -e 0", prepack: "node build.cjs" };

const document = `${JSON.stringify({ openapi: "3.1.0", info: { title: "Headgate", version: "0.1.0" } }, null, 2)}\n`;

const files: Readonly<Record<string, string>> = {
  "package.json": packageJson(passing),
  "package-lock.json": `${JSON.stringify({ name: "headgate", version: "0.1.0", lockfileVersion: 3, packages: { "": { name: "headgate", version: "0.1.0" } } }, null, 2)}\n`,
  "src/http/wire/version.ts": 'export const packageVersion = "0.1.0";\n',
  "src/http/wire/openapi.json": document,
  "src/http/wire/admin-openapi.json": document,
  "CHANGELOG.md": changelogWith(addition),
  ".gitignore": "dist/\nlib/\n",
  "build.cjs":
    'const fs = require("fs"); fs.mkdirSync("lib", { recursive: true }); fs.writeFileSync("lib/a.js", fs.readFileSync("src/http/wire/version.ts"));\n',
};

/** A package.json whose tests run this command, as text. */
export const testedBy = (test: string): string => packageJson({ ...passing, test });

/** A package.json whose `prepack` runs this command, as text. */
export const builtBy = (prepack: string): string => packageJson({ ...passing, prepack });

const script = resolve("src/cli/release.ts");

/** Prevents a developer's git configuration from applying. */
const environment = {
  ...process.env,
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_CONFIG_SYSTEM: "/dev/null",
  npm_lifecycle_event: "release",
};

export function releaseRepository(): ReleaseRepository {
  const folder = mkdtempSync(join(tmpdir(), "headgate-release-"));
  const write = (file: string, text: string): void => {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), text);
  };
  const git = (...words: readonly string[]): string =>
    execFileSync("git", words, { cwd: folder, encoding: "utf8", env: environment }).trim();
  git("init", "--quiet", "--initial-branch=main");
  git("config", "user.name", "Test");
  git("config", "user.email", "test@example.com");
  for (const [file, text] of Object.entries(files)) write(file, text);
  git("add", "--all");
  git("commit", "--quiet", "-m", "Begin");
  return {
    folder,
    write,
    read: (file) => readFileSync(join(folder, file), "utf8"),
    git,
    commit: (file, text) => {
      write(file, text);
      git("add", file);
      git("commit", "--quiet", "-m", `Change ${file}`);
    },
    state: () =>
      [
        git("rev-parse", "HEAD"),
        git("tag", "--list"),
        git("status", "--porcelain"),
        git("ls-files", "--others", "--ignored", "--exclude-standard", "dist"),
      ].join("\n"),
    release: (words, whenPrinted) => released(folder, words, whenPrinted),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

async function released(
  cwd: string,
  words: readonly string[],
  whenPrinted?: { readonly text: string; readonly call: (pid: number) => void },
): Promise<Outcome> {
  const child = spawn(process.execPath, [script, ...words], {
    cwd,
    env: environment,
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  let isCalled = false;
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (chunk: string) => {
      output += chunk;
      if (isCalled || whenPrinted === undefined || !output.includes(whenPrinted.text)) return;
      isCalled = true;
      whenPrinted.call(child.pid ?? 0);
    });
  }
  await once(child, "close");
  return { exitCode: child.exitCode, output };
}
