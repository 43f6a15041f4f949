/**
 * The pages about the npm package list the options that the package's types have, with the defaults of the same policy
 * fields.
 */
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { readOptions } from "../../src/sdk/client/options.ts";
import * as engine from "../../src/sdk/package/strategies.ts";
import { fieldsOf, valueOf, withDefault } from "./field-table.ts";
import { readPage, rowsOf } from "./pages.ts";

/** `ts signature` blocks of the pages are generated: "```ts signature\n". */
const main = readPage("docs/reference/package.md");
const client = readPage("docs/reference/package-client.md");
const policies = readPage("docs/reference/policies.md");
const enginePage = readFileSync("docs/reference/package-engine.md", "utf8");

/** The default of each option, in Markdown, in the table below a heading. */
function defaultsOf(page: typeof main, heading: string): ReadonlyMap<string, string> {
  const tables = page.tables.filter((table) => table.heading === heading);
  const rows = rowsOf({ ...page, tables }, "option", "type", "default", "meaning");
  return new Map(rows.map(([name = "", , fallback = ""]) => [name.replaceAll("`", ""), fallback]));
}

it("the table of subpaths lists the subpaths that the package exports", () => {
  const { exports } = JSON.parse(readFileSync("package.json", "utf8")) as { exports: object };
  const paths = Object.keys(exports).filter((path) => path !== "." && !path.endsWith(".json"));
  const listed = rowsOf(main, "subpath", "for").map(([path]) => path);
  expect(new Set(listed)).toEqual(new Set(paths.map((path) => `\`${path.replace(".", "headgate")}\``)));
});

it("every field of a policy is an option of the middleware, with the same default", () => {
  const options = defaultsOf(main, "PolicyOptions");
  const fields = fieldsOf(policies, "field");
  expect(fields.filter(({ name }) => !options.has(name))).toEqual([]);
  for (const { name, default: fallback } of withDefault(fields)) {
    expect([name, options.get(name)]).toEqual([name, fallback]);
  }
});

it.each([
  ["field of a limit", "LimitOptions"],
  ["field of `match`", "MatchOptions"],
])("every %s is a field of %s, with the same default", (heading, name) => {
  const options = defaultsOf(main, name);
  const fields = fieldsOf(policies, heading);
  expect(fields.map((field) => field.name).toSorted()).toEqual([...options.keys()].toSorted());
  for (const field of withDefault(fields)) {
    expect([field.name, options.get(field.name)]).toEqual([field.name, field.default]);
  }
});

it("the defaults of the client equal those that the page states", () => {
  const options = defaultsOf(client, "HttpOptions");
  const given = { url: "https://limits.example.com", token: "t", fetch };
  const defaults = Object.entries(readOptions(given)).filter(([name]) => !Object.hasOwn(given, name));
  expect(defaults.map(([name]) => name)).toEqual(["path", "retries", "maxWaitMs", "timeoutMs"]);
  expect(defaults.map(([name]) => [name, valueOf(options.get(name) ?? "")])).toEqual(defaults);
});

it("the page about the engine has every function and value of headgate/strategies", () => {
  const names = Object.keys(engine);
  expect(names).toContain("createTree");
  expect(names.filter((name) => !enginePage.includes(`\`${name}\``))).toEqual([]);
});
