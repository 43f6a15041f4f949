/** Every event is declared in `events.ts`, reported by the code, and documented in `docs/operate/logs.md`. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { declaredEvents } from "./declared-events.ts";

/** The level of each event in `events.ts`. */
function declaredLevel(code: string, name: string): string {
  return new RegExp(`"${name}": "(warn|log)"`).exec(code)?.[1] ?? "error";
}

interface DocumentedEvent {
  readonly level: string;
  /** Which requests the event affects, and how. */
  readonly affected: string;
  /** The text of the section about an event. */
  readonly section: string;
}

/** The rows of the page's first table, each with the section to which it links. */
function documentedEvents(page: string): Map<string, DocumentedEvent> {
  const [, table = ""] = /^## All events$([^]*?)^## /m.exec(page) ?? [];
  const sections = new Map(
    page.split(/^## /m).map((text) => [text.slice(0, text.indexOf("\n")).replaceAll("`", ""), text] as const),
  );
  return new Map(
    [...table.matchAll(/^\| \[`([a-z-]+)`\]\(#([a-z-]+)\) +\| (\w+) +\| ([^|]+)/gm)].map(
      ([, name = "", anchor = "", level = "", affected = ""]) => [
        name,
        { level, affected: affected.trim(), section: sections.get(anchor) ?? "" },
      ],
    ),
  );
}

/** The example line in the section of an event; null without one. */
function exampleIn(section: string): Record<string, unknown> | null {
  const [, json] = /^```json event\n([^]*?)^```$/m.exec(section) ?? [];
  return json === undefined ? null : (JSON.parse(json) as Record<string, unknown>);
}

const source = readFileSync("src/observability/events.ts", "utf8");
const documented = documentedEvents(readFileSync("docs/operate/logs.md", "utf8"));
const files = readdirSync("src", { recursive: true, encoding: "utf8" })
  .filter((path) => path.endsWith(".ts") && !/^(?:(?:advisor\/)?cli\/|observability\/events\.ts)/.test(path))
  .map((path) => readFileSync(join("src", path), "utf8"));

test("docs/operate/logs.md has a row with the level, and a section, for each declared event", () => {
  expect([...documented.keys()].toSorted()).toEqual([...declaredEvents.keys()].toSorted());
  expect(declaredEvents.size).toBeGreaterThan(15);
  const wrongLevels = [...documented].filter(([name, { level }]) => level !== declaredLevel(source, name));
  expect(wrongLevels).toEqual([]);
});

test.for([...declaredEvents.keys()])(
  "docs/operate/logs.md states the affected requests of %s in its row, and an example, a meaning and an action in its section",
  (name) => {
    const { section = "", affected = "" } = documented.get(name) ?? {};
    expect(affected).not.toBe("");
    expect(exampleIn(section)?.["event"]).toBe(name);
    for (const part of ["Meaning", "Action"]) {
      expect(section).toMatch(new RegExp(`^(?:- )?\\*\\*${part}[.:]\\*\\*\\s`, "m"));
    }
  },
);

test("the code reports every declared event, and event names are in kebab case", () => {
  const code = files.join("\n");
  const names = [...declaredEvents.keys()];
  expect(names.filter((name) => !code.includes(`event: "${name}"`))).toEqual([]);
  expect(names.filter((name) => !/^[a-z]+(?:-[a-z]+)*$/.test(name))).toEqual([]);
});

test("the Worker writes to the console in one place only, in observability/events.ts", () => {
  expect(files.filter((text) => /\bconsole(?:\.(?!ts\b)\w|\[)/.test(text))).toEqual([]);
  expect(source.match(/\bconsole\b/g)).toHaveLength(1);
});
