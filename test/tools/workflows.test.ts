/**
 * The GitHub workflows: pinned actions, few permissions, no untrusted input in commands, and the steps of a release.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Yaml } from "@stoplight/spectral-parsers";
import { describe, expect, it } from "vitest";

interface Step {
  readonly uses?: string;
  readonly run?: string;
  readonly if?: string;
  readonly with?: Readonly<Record<string, unknown>>;
  readonly env?: Readonly<Record<string, string>>;
}

interface Job {
  readonly if?: string;
  readonly permissions?: Readonly<Record<string, string>>;
  readonly "timeout-minutes"?: number;
  readonly needs?: string;
  readonly steps: readonly Step[];
}

interface Workflow {
  readonly on: Readonly<Record<string, unknown>>;
  readonly permissions?: Readonly<Record<string, string>>;
  readonly jobs: Readonly<Record<string, Job>>;
}

const folder = ".github/workflows";
const files = readdirSync(folder);

function parsed(text: string): Workflow {
  const { data, diagnostics } = Yaml.parse(text) as { data: Workflow; diagnostics: unknown[] };
  if (diagnostics.length > 0) throw new Error(JSON.stringify(diagnostics));
  return data;
}

const textOf = (file: string): string => readFileSync(join(folder, file), "utf8");

const stepsOf = ({ jobs }: Workflow): Step[] => Object.values(jobs).flatMap(({ steps }) => steps);

/** The violations of the rules that hold for every workflow. */
function problemsIn(text: string): string[] {
  const workflow = parsed(text);
  const triggers = Object.keys(workflow.on);
  return [
    ...triggers
      .filter((trigger) => !["push", "pull_request", "schedule", "workflow_dispatch"].includes(trigger))
      .map((trigger) => `trigger ${trigger}`),
    ...(workflow.permissions === undefined ? ["no permissions"] : []),
    ...writesIn("the workflow", workflow.permissions),
    ...Object.entries(workflow.jobs).flatMap(([name, job]) => [
      ...(job["timeout-minutes"] === undefined ? [`${name} has no timeout`] : []),
      // A pull request from a fork runs the fork's code, so no job for pull requests may have write permissions.
      ...(triggers.includes("pull_request") ? writesIn(name, job.permissions) : []),
    ]),
    ...stepsOf(workflow).flatMap(({ uses = "", run = "", with: inputs }) => [
      ...(uses === "" || /^[\w-]+\/[\w-]+@[\da-f]{40}$/.test(uses) ? [] : [`${uses} is not pinned`]),
      ...(uses.startsWith("actions/checkout@") && inputs?.["persist-credentials"] !== false
        ? ["the checkout keeps its credentials"]
        : []),
      // GitHub replaces an expression before the shell reads the command, so that the expression's value could be run
      // as a command.
      ...(run.includes("${{") ? [`an expression in ${run}`] : []),
    ]),
    ...[...text.matchAll(/^( *)- uses: (.*)$/gm)].flatMap(([line, indent, uses]) =>
      text.includes(`\n${indent}# ${versionBefore(text, line)}\n${line}`) ? [] : [`no version above ${uses}`],
    ),
  ];
}

const writesIn = (name: string, permissions: Readonly<Record<string, string>> = {}): string[] =>
  Object.entries(permissions)
    .filter(([, access]) => access === "write")
    .map(([permission]) => `${name} may write ${permission}`);

/** The version in the comment above the first occurrence of a line. */
function versionBefore(text: string, line: string): string {
  const above = text.slice(0, text.indexOf(line)).trimEnd().split("\n").at(-1) ?? "";
  return /^ *# (v\d+\.\d+\.\d+)$/.exec(above)?.[1] ?? "no version";
}

describe("every workflow", () => {
  it.each(files)("%s keeps the rules for workflows", (file) => {
    expect(problemsIn(textOf(file))).toEqual([]);
  });

  it("each action has the same commit and version in all workflows", () => {
    const pins = files.flatMap((file) =>
      [...textOf(file).matchAll(/# (v[\d.]+)\n *- uses: (\S+)@(\S+)/g)].map(
        ([, version, action, commit]) => [action, `${version} ${commit}`] as const,
      ),
    );
    const byAction = Map.groupBy(pins, ([action]) => action);
    for (const [action, uses] of byAction) {
      expect([action, new Set(uses.map(([, pin]) => pin)).size]).toEqual([action, 1]);
    }
    expect(byAction.size).toBeGreaterThan(3);
  });

  const good = textOf("ci.yml");
  it.each<[string, string, string, string]>([
    ["an unpinned action", /@[\da-f]{40}/.exec(good)?.[0] ?? "", "@v5", "is not pinned"],
    ["a missing version", "# v5.0.0", "# the checkout", "no version above actions/checkout"],
    ["pull_request_target", "pull_request:", "pull_request_target:", "trigger pull_request_target"],
    ["a permission to write", "contents: read", "contents: write", "may write contents"],
    ["kept credentials", "persist-credentials: false", "persist-credentials: true", "credentials"],
    ["no timeout", /timeout-minutes: \d+/.exec(good)?.[0] ?? "", "name: test", "has no timeout"],
    ["an expression", "run: .ci/run", "run: echo ${{ github.head_ref }}", "an expression in echo"],
  ])("a workflow with %s breaks the rules", (_, from, to, problem) => {
    expect(good).toContain(from);
    expect(problemsIn(good.replace(from, to)).join("\n")).toContain(problem);
  });
});

describe("the workflow of a release", () => {
  const { on, permissions, jobs } = parsed(textOf("release.yml"));
  const commandsOf = (job: string): string[] => (jobs[job]?.steps ?? []).flatMap(({ run }) => run ?? []);

  it("the release workflow runs only for a version tag", () => {
    expect(on).toEqual({ push: { tags: ["v[0-9]+.[0-9]+.[0-9]+"] } });
  });

  it("each release job has only the permissions that it needs, and the job that runs the build cannot write", () => {
    expect(permissions).toEqual({});
    const granted = Object.entries(jobs).map(([name, job]) => [name, job.permissions]);
    expect(Object.fromEntries(granted)).toEqual({
      pack: { contents: "read" },
      publish: { "id-token": "write", attestations: "write" },
      "github-release": { contents: "write" },
    });
  });

  it("release jobs that can write neither check out the repository nor install dependencies", () => {
    const others = Object.entries(jobs).flatMap(([name, job]) => (name === "pack" ? [] : job.steps));
    expect(others.filter(({ uses }) => uses?.startsWith("actions/checkout@"))).toEqual([]);
    const commands = others.flatMap(({ run }) => run ?? []);
    expect(commands.filter((run) => /npm (?:ci|install|run)/.test(run))).toEqual([]);
  });

  it("a release runs all tests before it builds the package, and then publishes the package with provenance", () => {
    expect(commandsOf("pack").slice(1)).toEqual([".ci/run", "npm run release -- --pack-only"]);
    expect(jobs["publish"]?.needs).toBe("pack");
    expect(jobs["github-release"]?.needs).toBe("publish");
    expect(commandsOf("publish").at(-1)).toContain("--provenance --access public");
  });

  it("a release publishes nothing while the package is private", () => {
    const publishing = stepsOf({ on, jobs }).filter(({ run }) => run?.includes("npm publish"));
    expect(publishing.map((step) => step.if)).toEqual(["needs.pack.outputs.is-private == 'false'"]);
    const [check = ""] = commandsOf("pack");
    expect(check).toContain(`is-private=$(node -p 'require("./package.json").private === true')`);
  });

  it("the GitHub release has the section of the changelog, the package and its checksums", () => {
    const [create = ""] = commandsOf("github-release");
    for (const file of ["--notes-file release/notes.md", "release/*.tgz", "release/SHA256SUMS"])
      expect(create).toContain(file);
  });
});

describe("the workflow of the documentation", () => {
  const { on, permissions, jobs } = parsed(textOf("docs.yml"));

  it("the documentation is published from main, and only in repositories with GitHub Pages", () => {
    expect(on).toEqual({ push: { branches: ["main"] }, workflow_dispatch: null });
    expect(jobs["build"]?.if).toBe("github.event.repository.has_pages");
  });

  it("the job that builds the site cannot write, and the job that publishes it runs no command", () => {
    expect(permissions).toEqual({ contents: "read" });
    expect(jobs["build"]?.permissions).toEqual({ contents: "read", pages: "read" });
    expect(jobs["publish"]?.permissions).toEqual({ pages: "write", "id-token": "write" });
    expect(jobs["publish"]?.needs).toBe("build");
    expect(jobs["publish"]?.steps.map(({ uses = "" }) => uses.replace(/@.*/, ""))).toEqual(["actions/deploy-pages"]);
  });

  it("the site is built below the path at which GitHub Pages serves it", () => {
    const steps = jobs["build"]?.steps ?? [];
    const build = steps.find(({ run }) => run?.startsWith("npm run docs"));
    expect(build?.run).toBe('npm run docs -- --base "$BASE_PATH/"');
    expect(build?.env).toEqual({ BASE_PATH: "${{ steps.pages.outputs.base_path }}" });
    expect(steps.at(-1)?.with).toEqual({ path: "dist/site" });
  });
});
