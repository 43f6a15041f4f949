import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readPolicy } from "../../src/config/index.ts";
import { checkout, freePort, type Run, runNpm, started, stopped } from "./checkout.ts";

interface Block {
  readonly language: string;
  readonly text: string;
}

const readme = readFileSync("README.md", "utf8");
const blocks: Block[] = [...readme.matchAll(/^```(\w+)\n([^]*?)^```$/gm)].map(
  ([, language = "", text = ""]) => ({ language, text }),
);

/** The rows of the README's table of policy fields. */
const [, table = ""] = /^\| field of a policy [^\n]*\n[^\n]*\n([^]*?)^$/m.exec(readme) ?? [];
const fields = table
  .trim()
  .split("\n")
  .map((row) => row.split("|").map((cell) => cell.trim()))
  .map(([, name = "", , fallback = "", example = ""]) => ({
    name: name.slice(1, -1),
    fallback,
    example: example.slice(1, -1),
  }));

const { folder, configure, remove } = checkout();
let port = 0;
let run: Run;

beforeAll(async () => {
  port = await freePort();
  run = await started(folder, port);
});

afterAll(async () => {
  await stopped(run);
  remove();
});

describe("the README", () => {
  it("the README's commands answer as it shows, one after the other", () => {
    const shown = blocks.filter(({ text }) => text.includes("curl ")).map(({ text }) => text);
    const script = shown.join("printf '\\036'\n").replaceAll("localhost:8787", `localhost:${port}`);
    const printedOut = execFileSync("bash", ["-euc", script], { cwd: folder, encoding: "utf8" });
    const [first = "", loop = "", spend = "", rest = "", adhoc = ""] = printedOut.split("\u001e");
    const lines = first.split("\r\n");
    expect(lines).toEqual(expect.arrayContaining(expectedAfter("curl -i").trim().split("\n")));
    expect(loop.trim()).toBe(expectedAfter("for request in").trim());
    expect(JSON.parse(spend)).toEqual(JSON.parse(expectedAfter("TOKEN=")));
    expect(JSON.parse(rest)).toMatchObject({ allowed: true, limits: [{ remaining: 3 }] });
    expect(JSON.parse(adhoc)).toMatchObject({
      allowed: true,
      policy: "adhoc",
      limits: [{ remaining: 99 }, { remaining: 19 }],
    });
  });

  // service.local.test.ts runs the Worker that binds Headgate.
  const ours = blocks.filter(
    ({ language, text }) => language === "toml" && !text.includes("[[services]]"),
  );

  it.each(ours)("the README's configuration is valid: block %#", async ({ text }) => {
    configure(text.trim().split("\n"));
    const environment = /^\[env\.(\w+)\./m.exec(text)?.[1] ?? "";
    const options = ["--secrets-deployed", `--env=${environment}`];
    const check = runNpm(folder, "run", "--silent", "check-config", "--", ...options);
    expect([await check.ended, check.output()]).toEqual([
      0,
      expect.stringContaining("The configuration is valid."),
    ]);
  });

  it("the README's table lists every field of a policy and no other", () => {
    const [accepted = ""] = problemsOf({ name: "a", limits: "1/hour", other: 1 });
    expect(fields.map(({ name }) => name).toSorted()).toEqual(
      accepted.replace("one of the fields ", "").split(", ").toSorted(),
    );
  });

  it("the README's example of every policy field is valid", async () => {
    const policies = fields.map(({ name, example }, index) => [
      "[[vars.POLICIES]]",
      ...(name === "name" ? [] : [`name = "example-${index}"`]),
      // Limits that the other fields need.
      ...(name === "limits"
        ? []
        : [
            `limits = { limit = 10, window = "1m", strategy = "leaky-bucket", mode = "${name === "maxDelay" ? "queue" : "police"}" }`,
          ]),
      ...(name === "syncEvery" ? ['consistency = "eventual"'] : []),
      ...(name === "objects" ? [] : ['objects = "sharded"']),
      example,
    ]);
    configure([`JWT_JWKS_URL = "https://id.example.com/keys"`, ...policies.flat()]);
    const check = runNpm(folder, "run", "--silent", "check-config", "--", "--secrets-deployed");
    expect([await check.ended, check.output()]).toEqual([
      0,
      expect.stringContaining("The configuration is valid."),
    ]);
    for (const { name, example } of fields) expect(example).toMatch(new RegExp(`^${name} = `));
  });

  const fieldsWithDefault = fields.filter(({ fallback }) => fallback.startsWith("`"));

  it.each(fieldsWithDefault)("the README states the default of $name", ({ name, fallback }) => {
    const policy = {
      name: "a",
      limits: "1/hour",
      ...(name === "shards" && { objects: "sharded" }),
      ...(name === "syncEvery" && { consistency: "eventual" }),
    };
    const value: unknown = JSON.parse(fallback.slice(1, -1));
    expect(policyOf({ ...policy, [name]: value })).toEqual(policyOf(policy));
  });

  it("the README's source tree shows every folder of src and no other", () => {
    const drawn = [...readme.matchAll(/^ {2}([a-z]+)\/(?: |$)/gm)].map(([, name]) => name);
    const there = readdirSync("src", { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => entry.name);
    expect(new Set(drawn)).toEqual(new Set(there));
  });
});

/** The part of each problem that states the accepted values. */
function problemsOf(written: object): string[] {
  const problems: string[] = [];
  readPolicy("", "", written, ({ accepted }) => problems.push(accepted));
  return problems;
}

function policyOf(written: object): unknown {
  expect(problemsOf(written)).toEqual([]);
  return readPolicy("", "", written, () => undefined);
}

/** The output block that follows the command block with this beginning. */
function expectedAfter(words: string): string {
  const index = blocks.findIndex(({ text }) => text.startsWith(words));
  return blocks[index + 1]?.text ?? "";
}
