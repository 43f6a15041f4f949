import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { ids, page, rowsOf, testsById, updated } from "./table.ts";

const text = readFileSync(page, "utf8");
const rows = rowsOf(text);

describe("the conformance table", () => {
  it("the conformance table has every id once, in order", () => {
    expect(rows.map(({ id }) => id)).toEqual(ids);
  });

  // If this fails, run `node test/conformance/table.ts` and `npx oxfmt test/conformance`.
  it("the conformance table links to all tests whose titles begin with an id", () => {
    expect(rowsOf(updated(text))).toEqual(rows);
  });

  it.each(rows)("the row $id of the conformance table has a test or a reason, a statement and a source", (row) => {
    expect(row.tests).not.toBe("");
    expect(testsById().has(row.id)).toBe(row.tests.startsWith("["));
    expect([row.statement, row.source]).not.toContain("");
  });
});

it("updating the conformance table keeps reasons and removes links to deleted tests", () => {
  const gone = "| X01 | a | b | [tests](tests.test.ts) |\n| X02 | a | b | no tests yet |";
  expect(rowsOf(updated(gone)).map(({ tests }) => tests)).toEqual(["", "no tests yet"]);
});
