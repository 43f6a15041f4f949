/** The migration table names every option of the packages, has a case for each, and agrees with the errors. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { rateLimit } from "../../../src/sdk/package/hono.ts";
import { readPage } from "../../docs/pages.ts";
import { cases } from "./cases.ts";

const table = readPage("docs/how-to/migrate-from.md").tables.find(
  ({ heading }) => heading === "Options of hono-rate-limiter and express-rate-limit",
);

interface Row {
  /** The entries of a cell, such as "`limit`" and "`limit` as a function". */
  readonly entries: readonly string[];
  readonly package: string;
  readonly replacement: string;
}

const rows: readonly Row[] = (table?.rows ?? []).map(([options = "", name = "", use = ""]) => ({
  entries: options.split(", ").map((entry) => entry.replace(/ \(.*\)$/, "")),
  package: name,
  replacement: use,
}));

const nameOf = (entry: string): string => /`(\w+)`/.exec(entry)?.[1] ?? "";

/** The members of the interfaces or types with these names in a declaration file. */
function membersOf(path: string, types: readonly string[]): string[] {
  const code = readFileSync(`test/tools/node_modules/${path}`, "utf8");
  return types.flatMap((type) => {
    const [, body] = new RegExp(`(?:interface|type) ${type}\\b[^]*?\\{\n([^]*?)\n\\}`).exec(code) ?? [];
    if (body === undefined) throw new Error(`${path} declares no ${type}`);
    return [...body.matchAll(/^(?: {4}|\t)(\w+)\??:/gm)].map(([, name = ""]) => name);
  });
}

const hono = new Set([
  ...membersOf("hono-rate-limiter/src/types.d.ts", ["ConfigType"]),
  ...membersOf("hono-rate-limiter-0.5/dist/index.d.ts", [
    "KeyGeneratorType",
    "CommonConfigType",
    "CloudflareConfigType",
    "HonoConfigType",
  ]),
  ...membersOf("@hono-rate-limiter/cloudflare/src/types.d.ts", ["ConfigType"]),
]);
const express = new Set(membersOf("express-rate-limit/dist/index.d.ts", ["Options"]));

/** These options change no response. Separate tests cover them. */
const withoutCase = ["`requestStorePropertyName`", "`validate`", "`logger`"];

describe("the migration table", () => {
  it("the migration table names every option of the packages, and the packages that have the option", () => {
    const named = (name: string): string[] =>
      rows
        .filter((row) => row.package === name || row.package === "both")
        .flatMap(({ entries }) => entries.map(nameOf));
    expect(new Set(named("hono"))).toEqual(hono);
    expect(new Set(named("express"))).toEqual(express);
  });

  it("each entry of the migration table has a case for each of its packages", () => {
    for (const row of rows) {
      for (const entry of row.entries.filter((each) => !withoutCase.includes(each))) {
        const found = cases.find((each) => each.row === entry);
        const peers = Object.keys(found?.peers ?? {});
        const covers = (name: string): boolean => peers.some((peer) => peer.includes(name));
        expect([entry, covers("hono"), covers("express")]).toEqual([
          entry,
          row.package !== "express",
          row.package !== "hono",
        ]);
      }
    }
    expect(cases.filter(({ row }) => !rows.some(({ entries }) => entries.includes(row)))).toEqual([]);
  });

  it("each row of the migration table names the options of rateLimit that its case uses", () => {
    const general = new Set(["limit", "limits", "windowMs", "strategy", "key"]);
    for (const { row, headgate, variables = {} } of cases) {
      const { replacement } = rows.find(({ entries }) => entries.includes(row)) ?? {};
      const used = [...headgate.flatMap(Object.keys), ...Object.keys(variables)];
      const special = used.filter((name) => !general.has(name) && name !== "RATE_LIMITER");
      const missing = special.filter((name) => !replacement?.includes(name));
      expect([row, missing.filter(() => replacement !== "the same")]).toEqual([row, []]);
    }
  });
});

/** The error of `rateLimit` for an option of another package; null if `rateLimit` accepts the option. */
function errorOf(name: string, value: unknown): string | null {
  try {
    rateLimit({ limit: 5, windowMs: 1_000, [name]: value });
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

describe("the errors of rateLimit for options of other packages", () => {
  const renamed = rows.filter(({ replacement }) => !replacement.startsWith("the same"));
  const entries = renamed.flatMap((row) => row.entries.map((entry) => ({ entry, row })));

  it.each(entries)("the error of rateLimit for $entry names the replacement of its row", ({ entry, row }) => {
    const value = entry.endsWith("as a function") ? () => 5 : true;
    const error = errorOf(nameOf(entry), value);
    const isNeeded = !row.replacement.startsWith("not needed");
    const [, named = ""] = /`(?:the variable )?(\w+)/.exec(row.replacement) ?? [];
    expect(error).toContain(`rateLimit.${nameOf(entry)}: expected `);
    expect(error).toContain(isNeeded ? named : /`c\.get/.test(row.replacement) ? "c.get" : "nothing");
  });
});
