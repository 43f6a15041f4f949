import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

/** The fields of each event, by its name, as the type of events has them. */
function declared(source: string): Map<string, string[]> {
  const [, union = ""] = /export type Event =([^]*?);\n\n/.exec(source) ?? [];
  const members = union.split(/readonly event: "/).slice(1);
  return new Map(
    members.map((member) => {
      const [name = "", fields = ""] = member.split(/"(.*)/s);
      return [name, [...fields.matchAll(/readonly (\w+)\??:/g)].map(([, field = ""]) => field)];
    }),
  );
}

/** The rows of the table of events in the README: the name, the fields, the meaning and what to do. */
function documented(readme: string): Map<string, string[]> {
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
const table = documented(readFileSync("README.md", "utf8"));
const events = declared(source);

describe("the table of events in the README", () => {
  it("has a row for each event, and no other", () => {
    expect([...table.keys()].toSorted()).toEqual([...events.keys()].toSorted());
    expect(events.size).toBeGreaterThan(15);
  });

  it.each([...events])("names the fields of %s, its meaning and what to do", (name, fields) => {
    const [written = "", meaning = "", action = ""] = table.get(name) ?? [];
    const named = [...written.matchAll(/`(\w+)`/g)].map(([, field]) => field);
    expect(named).toEqual(fields);
    expect([meaning, action].map((text) => text.length > 10)).toEqual([true, true]);
  });
});

describe("the events", () => {
  const files = readdirSync("src", { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".ts") && !/^(?:local\/|observability\/events\.ts)/.test(path))
    .map((path) => readFileSync(join("src", path), "utf8"));
  const all = files.join("\n");

  it.each([...events.keys()])("include %s, which some code reports", (name) => {
    expect(name).toMatch(/^[a-z]+(?:-[a-z]+)*$/);
    expect(all.includes(`event: "${name}"`)).toBe(true);
  });

  it("are the only lines that the Worker writes", () => {
    const writing = files.filter((text) => /\bconsole\b/.test(text));
    expect(writing).toEqual([]);
    expect(source.match(/\bconsole\b/g)).toHaveLength(1);
  });
});
