import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { benchCommands } from "../tools/bench-commands.ts";
import { type Run, runNpm } from "./checkout.ts";

const { scripts } = JSON.parse(readFileSync("package.json", "utf8")) as {
  scripts: Readonly<Record<string, string>>;
};
const npmRun = (...words: string[]): Run => runNpm(".", "run", "--silent", ...words);

it.each(["start", "deploy", "check-config"])(
  "npm run %s -- --help prints its usage and does nothing else",
  async (name) => {
    const run = npmRun(name, "--", "--help");
    expect([await run.ended, run.output()]).toEqual([
      0,
      expect.stringMatching(
        name === "start" ? /^Usage: npm start -- / : `^Usage: npm run ${name} -- `,
      ),
    ]);
  },
);

it.each(Object.keys(benchCommands))(
  "npm run bench -- %s --help prints its usage and does nothing else",
  async (name) => {
    const run = npmRun("bench", "--", name, "--help");
    expect([await run.ended, run.output()]).toEqual([
      0,
      expect.stringContaining(`Usage: npm run bench -- ${name} [options]\n`),
    ]);
  },
);

it("npm run bench lists all names, and rejects an unknown one", async () => {
  const list = npmRun("bench");
  expect(await list.ended).toBe(0);
  for (const [name, { about }] of Object.entries(benchCommands)) {
    expect(list.output()).toMatch(new RegExp(`^  ${name} +${about}$`, "m"));
  }
  const unknown = npmRun("bench", "--", "speed");
  expect([await unknown.ended, unknown.output()]).toEqual([
    1,
    `expected one of the names below, got "speed"\n\n${list.output()}`,
  ]);
});

it("every npm script that runs a TypeScript program is tested for --help", () => {
  const programs = Object.keys(scripts).filter((name) => scripts[name]?.startsWith("exec node "));
  expect(programs.toSorted()).toEqual(["bench", "check-config", "deploy", "start"]);
});
