/** The page about the command line lists exactly the options of each command, with their defaults. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { benchCommands } from "../tools/bench-commands.ts";
import { readPage } from "./pages.ts";

const { tables } = readPage("docs/reference/command-line.md");

const withoutCode = (text: string): string => text.replaceAll("`", "");

/** The rows of the table of options below a heading. */
const rowsUnder = (heading: string): string[][] =>
  (tables.findLast((table) => table.heading === heading)?.rows ?? []).map((row) =>
    row.map(withoutCode),
  );

interface Option {
  readonly usage: string;
  /** Null if the help text states none. */
  readonly fallback: string | null;
}

const { scripts } = JSON.parse(readFileSync("package.json", "utf8")) as {
  scripts: Readonly<Record<string, string>>;
};

/** Runs the script without npm, which would take as long again. */
function optionsOf(script: string, ...words: string[]): Option[] {
  const [, file = ""] = /^exec node (\S+)$/.exec(scripts[script] ?? "") ?? [];
  const help = execFileSync(process.execPath, [file, ...words, "--help"], { encoding: "utf8" });
  const [, own = ""] = /Options:\n([^]*?)(?:\n\n|$)/.exec(help) ?? [];
  return own.split("\n").flatMap((line) => {
    const [, usage = "", about = ""] = /^ {2}(.+?)(?: {2,}(.*))?$/.exec(line) ?? [];
    if (usage === "-h, --help" || usage === "") return [];
    return [{ usage, fallback: /\(default: ([^,)]+)/.exec(about)?.[1] ?? null }];
  });
}

it.each(["start", "check-config", "deploy"])(
  "the page lists the options of npm run %s",
  (script) => {
    const options = optionsOf(script);
    const heading = script === "start" ? "npm start" : `npm run ${script}`;
    const listed = new Map(rowsUnder(heading).map(([usage = "", fallback]) => [usage, fallback]));
    expect([...listed.keys()].toSorted()).toEqual(options.map(({ usage }) => usage).toSorted());
    for (const { usage, fallback } of options) {
      expect(listed.get(usage)).toContain(fallback ?? "");
    }
  },
);

const ownOptions = Object.keys(benchCommands).filter((name) => name !== "mutation");

it.each(ownOptions)("the page lists the options of npm run bench -- %s", (name) => {
  const options = optionsOf("bench", name);
  const listed = rowsUnder("npm run bench").filter(([of]) => of === name);
  expect(listed.map(([, usage]) => usage)).toEqual(options.map(({ usage }) => usage));
  for (const [index, { fallback }] of options.entries()) {
    const shown = listed[index]?.[2]?.replaceAll(",", "") ?? "";
    const isNumber = /^\d+$/.test(fallback ?? "");
    expect(shown).toContain(isNumber ? fallback : "");
  }
});

it("the page lists every measurement", () => {
  const { rows = [] } = tables.find(({ columns }) => columns[0] === "name") ?? {};
  const names = rows.map(([name = ""]) => withoutCode(name));
  expect(names).toEqual(Object.keys(benchCommands));
});
