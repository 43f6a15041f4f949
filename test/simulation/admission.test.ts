/** The README's table of over- and under-admission by consistency. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { cellsOf } from "../tools/table.ts";
import { admissionHeader, admissionRow, measureAdmission } from "./admission.ts";

describe("the admission table", async () => {
  const measurements = await measureAdmission();

  it("the README has the measured admission table", () => {
    const [, section = ""] = readFileSync("README.md", "utf8").split("`npm run simulate` plays");
    expect(cellsOf(section)).toEqual([admissionHeader, ...measurements.map(admissionRow)]);
  });

  it("only eventual consistency in several isolates over-admits", () => {
    for (const { consistency, isolates, over } of measurements) {
      expect(over > 0).toBe(consistency === "eventual" && isolates > 1);
    }
  });
});
