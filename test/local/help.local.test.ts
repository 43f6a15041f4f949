import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { runNpm } from "./checkout.ts";

const { scripts } = JSON.parse(readFileSync("package.json", "utf8")) as {
  scripts: Readonly<Record<string, string>>;
};
const commands = Object.keys(scripts).filter((name) => scripts[name]?.startsWith("exec node "));

it.each(commands)("npm run %s -- --help prints its usage and does nothing else", async (name) => {
  const run = runNpm(".", "run", "--silent", name, "--", "--help");
  expect([await run.ended, run.output()]).toEqual([
    0,
    expect.stringMatching(
      name === "start" ? /^Usage: npm start -- / : `^Usage: npm run ${name} -- `,
    ),
  ]);
});

it("every npm script that runs a TypeScript program is tested for --help", () => {
  expect(commands.length).toBeGreaterThanOrEqual(12);
});
