/** Each example starts with a single command, and does what its README shows. */
import { execFile } from "node:child_process";
import { cpSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, expect, it, vi } from "vitest";
import { checkout, freePort, printed, runNpm, stopped } from "../system/checkout.ts";
import { difference } from "./output.ts";
import { exampleNamed, exampleNames, examplesFolder, type ShownCommand } from "./worker-examples.ts";

const { folder, remove } = checkout();
cpSync(examplesFolder, join(folder, examplesFolder), { recursive: true });
afterAll(remove);

const run = promisify(execFile);

/**
 * Null if the command prints the shown text, otherwise the difference. Repeats a command whose output appears only
 * later.
 */
async function differenceOf({ command, shown, isLater }: ShownCommand, port: number): Promise<string | null> {
  const local = command.replaceAll("localhost:8787", `localhost:${port}`);
  const compare = async (): Promise<string | null> => {
    const { stdout } = await run("bash", ["-c", local]);
    return difference({ language: "text", text: shown }, stdout.replace(/\s+/g, " "));
  };
  if (isLater) await vi.waitUntil(async () => (await compare()) === null, 20_000);
  return compare();
}

it.each(exampleNames())("the example %s starts with one command and prints what its README shows", async (name) => {
  const { start, commands } = exampleNamed(name);
  const port = await freePort();
  const [npm, ...words] = start.split(" ");
  const example = runNpm(folder, ...words, "--port", String(port));
  const differences: (string | null)[] = [];
  try {
    await printed(example, "Stop with Ctrl-C.");
    for (const command of commands) {
      // Commands run one after the other.
      // oxlint-disable-next-line no-await-in-loop
      differences.push(await differenceOf(command, port));
    }
  } finally {
    await stopped(example);
  }
  expect([npm, ...differences]).toEqual(["npm", ...commands.map(() => null)]);
});

it("npm run example without a known name lists the names of the examples", async () => {
  const example = runNpm(".", "run", "--silent", "example", "--", "llm");
  expect(await example.ended).toBe(1);
  expect(example.output()).toContain(`(${exampleNames().join(", ")}), got "llm".`);
});
