import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { ids, page, rowsOf, testsById, updated } from "./table.ts";

const text = readFileSync(page, "utf8");
const rows = rowsOf(text);

describe("the conformance table", () => {
  it("has every id of the list once, in its order", () => {
    expect(rows.map(({ id }) => id)).toEqual(ids);
  });

  // Run `node test/conformance/table.ts` and `npm run format` where this fails.
  it("names the tests that there are", () => {
    expect(rowsOf(updated(text))).toEqual(rows);
  });

  it.each(rows)("has a test or a reason for $id, and a statement with its source", (row) => {
    expect(row.tests).not.toBe("");
    expect(testsById().has(row.id)).toBe(row.tests.startsWith("["));
    expect([row.statement, row.source]).not.toContain("");
  });
});

it("a row without a test keeps its reason, and loses the links of tests that are gone", () => {
  const gone = "| X01 | a | b | [tests](tests.test.ts) |\n| X02 | a | b | no tests yet |";
  expect(rowsOf(updated(gone)).map(({ tests }) => tests)).toEqual(["", "no tests yet"]);
});
