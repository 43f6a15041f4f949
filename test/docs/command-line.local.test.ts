/**
 * Every command prints its options with `--help`, and the pages about commands list exactly these options with their
 * defaults.
 */
import { expect, it } from "vitest";
import { type Run, runNpm } from "../system/checkout.ts";
import { benchCommands } from "../tools/bench-commands.ts";
import { commandTables, optionRows } from "./commands.ts";

const withoutCode = (text: string): string => text.replaceAll("`", "");

const documentedOptions = (command: string): string[][] => optionRows(command).map((row) => row.map(withoutCode));

const npmRun = (...words: string[]): Run => runNpm(".", "run", "--silent", ...words);

interface Option {
  readonly usage: string;
  /** Null if the help text states no default. */
  readonly fallback: string | null;
}

/** The options in the help text of a command. The first line of a help text is its usage. */
async function optionsOf(firstLine: string, ...words: string[]): Promise<Option[]> {
  const run = npmRun(...words, "--help");
  expect([await run.ended, run.output()]).toEqual([0, expect.stringContaining(`Usage: ${firstLine} [options]\n`)]);
  const [, own = ""] = /Options:\n([^]*?)(?:\n\n|$)/.exec(run.output()) ?? [];
  return own.split("\n").flatMap((line) => {
    const [, usage = "", about = ""] = /^ {2}(.+?)(?: {2,}(.*))?$/.exec(line) ?? [];
    if (usage === "-h, --help" || usage === "") return [];
    return [{ usage, fallback: /\(default: ([^,)]+)/.exec(about)?.[1] ?? null }];
  });
}

it.each([
  ["npm start"],
  ["npm run example", " <name>"],
  ["npm run check-config"],
  ["npm run explain"],
  ["npm run advise"],
  ["npm run what-if"],
  ["npm run deploy"],
  ["npm run smoke", " <url>"],
  ["npm run release", " <patch|minor|major|x.y.z>"],
  ["npm run screenshots"],
])(
  "%s -- --help prints the options that the pages list, and does nothing else",
  async (heading = "", argument = "") => {
    const options = await optionsOf(`${heading} --${argument}`, heading.split(" ").at(-1) ?? "", "--");
    const listed = new Map(documentedOptions(heading).map(([usage = "", fallback]) => [usage, fallback]));
    expect([...listed.keys()].toSorted()).toEqual(options.map(({ usage }) => usage).toSorted());
    for (const { usage, fallback } of options) {
      expect(listed.get(usage)).toContain(fallback ?? "");
    }
  },
);

it.each(Object.keys(benchCommands))(
  "npm run bench -- %s --help prints the options that the pages list, and does nothing else",
  async (name) => {
    const options = await optionsOf(`npm run bench -- ${name}`, "bench", "--", name);
    // Stryker lists its options in its own format.
    if (name === "mutation") return;
    const listed = documentedOptions("npm run bench").filter(([of]) => of === name);
    expect(listed.map(([, usage]) => usage)).toEqual(options.map(({ usage }) => usage));
    for (const [index, { fallback }] of options.entries()) {
      const shown = listed[index]?.[2]?.replaceAll(",", "") ?? "";
      const isNumber = /^\d+$/.test(fallback ?? "");
      expect(shown).toContain(isNumber ? fallback : "");
    }
  },
);

it("npm run bench lists the names of all measurements, and rejects an unknown name", async () => {
  const list = npmRun("bench");
  expect(await list.ended).toBe(0);
  for (const [name, about] of Object.entries(benchCommands)) {
    expect(list.output()).toMatch(new RegExp(`^  ${name} +${about}$`, "m"));
  }
  const unknown = npmRun("bench", "--", "speed");
  expect([await unknown.ended, unknown.output()]).toEqual([
    1,
    `expected one of the names below, got "speed"\n\n${list.output()}`,
  ]);
});

it("the page about development commands lists every measurement of npm run bench", () => {
  const { rows = [] } = commandTables.find(({ columns }) => columns[0] === "name") ?? {};
  const names = rows.map(([name = ""]) => withoutCode(name));
  expect(names).toEqual(Object.keys(benchCommands));
});
