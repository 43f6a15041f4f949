/** Every event is declared in `events.ts`, reported by the code, and documented in `docs/operate/logs.md`. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

interface DeclaredEvent {
  readonly required: readonly string[];
  readonly optional: readonly string[];
}

/** The fields of each event in the type `Event`. */
function declaredEvents(code: string): Map<string, DeclaredEvent> {
  const [, union = ""] = /export type Event =([^]*?);\n\n/.exec(code) ?? [];
  const members = union.split(/readonly event: "/).slice(1);
  return new Map(
    members.map((member) => {
      const [name = "", fields = ""] = member.split(/"(.*)/s);
      const named = [...fields.matchAll(/readonly (\w+)(\??):/g)];
      return [
        name,
        {
          required: named.flatMap(([, field = "", mark]) => (mark === "" ? field : [])),
          optional: named.flatMap(([, field = "", mark]) => (mark === "?" ? field : [])),
        },
      ];
    }),
  );
}

/** The level of each event in `events.ts`. */
function declaredLevel(code: string, name: string): string {
  return new RegExp(`"${name}": "(warn|log)"`).exec(code)?.[1] ?? "error";
}

interface DocumentedEvent {
  readonly level: string;
  /** The text of the event's section. */
  readonly section: string;
}

/** The rows of the page's first table, and the section that each links to. */
function documentedEvents(page: string): Map<string, DocumentedEvent> {
  const [, table = ""] = /^## All events$([^]*?)^## /m.exec(page) ?? [];
  const sections = new Map(
    page.split(/^## /m).map((text) => [text.slice(0, text.indexOf("\n")), text] as const),
  );
  return new Map(
    [...table.matchAll(/^\| \[`([a-z-]+)`\]\(#([a-z-]+)\) +\| (\w+) /gm)].map(
      ([, name = "", anchor = "", level = ""]) => [
        name,
        { level, section: sections.get(anchor) ?? "" },
      ],
    ),
  );
}

/** The example line in an event's section; null without one. */
function exampleIn(section: string): Record<string, unknown> | null {
  const [, json] = /^```json event\n([^]*?)^```$/m.exec(section) ?? [];
  return json === undefined ? null : (JSON.parse(json) as Record<string, unknown>);
}

const source = readFileSync("src/observability/events.ts", "utf8");
const documented = documentedEvents(readFileSync("docs/operate/logs.md", "utf8"));
const declared = declaredEvents(source);
const files = readdirSync("src", { recursive: true, encoding: "utf8" })
  .filter((path) => path.endsWith(".ts") && !/^(?:local\/|observability\/events\.ts)/.test(path))
  .map((path) => readFileSync(join("src", path), "utf8"));

test("the page about logs has a row with the level, and a section, for each declared event", () => {
  expect([...documented.keys()].toSorted()).toEqual([...declared.keys()].toSorted());
  expect(declared.size).toBeGreaterThan(15);
  const wrongLevels = [...documented].filter(
    ([name, { level }]) => level !== declaredLevel(source, name),
  );
  expect(wrongLevels).toEqual([]);
});

test.for([...declared])(
  "the section about %s has an example line with the declared fields, a meaning, the affected requests and an action",
  ([name, { required, optional }]) => {
    const { section = "" } = documented.get(name) ?? {};
    const example = exampleIn(section);
    expect(example?.["event"]).toBe(name);
    const fields = Object.keys(example ?? {}).filter((field) => field !== "event");
    expect(fields).toEqual(expect.arrayContaining([...required]));
    expect(fields.filter((field) => ![...required, ...optional].includes(field))).toEqual([]);
    for (const part of ["Meaning", "Requests affected", "Action"]) {
      expect(section).toMatch(new RegExp(`^(?:- )?\\*\\*${part}[.:]\\*\\*\\s`, "m"));
    }
  },
);

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
