import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { cellsOf } from "../tools/table.ts";
import { admissionHeader, admissionRow, measureAdmission } from "./admission.ts";

describe("the table of who decides", async () => {
  const measured = await measureAdmission();

  it("is in the README as it is measured", () => {
    const [, section = ""] = readFileSync("README.md", "utf8").split("`npm run simulate` plays");
    expect(cellsOf(section)).toEqual([admissionHeader, ...measured.map(admissionRow)]);
  });

  it("shows nobody over a limit but where isolates decide without one another", () => {
    for (const { consistency, isolates, over } of measured) {
      expect(over > 0).toBe(consistency === "eventual" && isolates > 1);
    }
  });
});
