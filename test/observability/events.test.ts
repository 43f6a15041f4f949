/** Every event is declared in `events.ts`, reported by the code, and documented in the README. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

/** The fields of each event in the type `Event`. */
function declaredEvents(source: string): Map<string, string[]> {
  const [, union = ""] = /export type Event =([^]*?);\n\n/.exec(source) ?? [];
  const members = union.split(/readonly event: "/).slice(1);
  return new Map(
    members.map((member) => {
      const [name = "", fields = ""] = member.split(/"(.*)/s);
      return [name, [...fields.matchAll(/readonly (\w+)\??:/g)].map(([, field = ""]) => field)];
    }),
  );
}

/** The fields, meaning and action of each event in the README's table. */
function documentedEvents(readme: string): Map<string, string[]> {
  const [, section = ""] = /^## Events$([^]*?)^## /m.exec(readme) ?? [];
  const rows = section.split("\n").filter((line) => line.startsWith("| `"));
  return new Map(
    rows.map((row) => {
      const [, name = "", ...cells] = row.split(/(?<!\\)\|/).map((cell) => cell.trim());
      return [name.replaceAll("`", ""), cells.slice(0, 3)];
    }),
  );
}

const source = readFileSync("src/observability/events.ts", "utf8");
const documented = documentedEvents(readFileSync("README.md", "utf8"));
const declared = declaredEvents(source);
const files = readdirSync("src", { recursive: true, encoding: "utf8" })
  .filter((path) => path.endsWith(".ts") && !/^(?:local\/|observability\/events\.ts)/.test(path))
  .map((path) => readFileSync(join("src", path), "utf8"));

test("the README's table of events has one row for each declared event", () => {
  expect([...documented.keys()].toSorted()).toEqual([...declared.keys()].toSorted());
  expect(declared.size).toBeGreaterThan(15);
});

test("the README states the fields, the meaning and the action of every event", () => {
  const rows = [...documented].map(([name, [fields = ""]]) => {
    return [name, [...fields.matchAll(/`(\w+)`/g)].map(([, field]) => field)] as const;
  });
  expect(Object.fromEntries(rows)).toEqual(Object.fromEntries(declared));
  const shortTexts = [...documented].filter(([, [, meaning = "", action = ""]]) =>
    [meaning, action].some((text) => text.length <= 10),
  );
  expect(shortTexts).toEqual([]);
});

test("the code reports every declared event, and event names are in kebab case", () => {
  const code = files.join("\n");
  const names = [...declared.keys()];
  expect(names.filter((name) => !code.includes(`event: "${name}"`))).toEqual([]);
  expect(names.filter((name) => !/^[a-z]+(?:-[a-z]+)*$/.test(name))).toEqual([]);
});

test("the Worker writes to the console only in observability/events.ts, once", () => {
  expect(files.filter((text) => /\bconsole\b/.test(text))).toEqual([]);
  expect(source.match(/\bconsole\b/g)).toHaveLength(1);
});
