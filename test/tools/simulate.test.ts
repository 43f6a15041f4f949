/** The page about consistency shows the measured over-admission. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { outdated } from "./generated.ts";
import { measureAdmission, percentText } from "../simulation/admission.ts";
import { admissionDocs, admissionPage } from "./simulate-page.ts";

describe("the admission table", async () => {
  const measurements = await measureAdmission();

  it("the page about consistency has the measured table and plot", () => {
    expect(outdated(admissionDocs(measurements))).toEqual([]);
  });

  it("the text of the page about consistency states each measured over-admission", () => {
    const [, answer = ""] = readFileSync(admissionPage, "utf8").split(/^## /m);
    expect(answer).toMatch(/^How exact is eventual\?/);
    const stated = measurements.flatMap(({ setting, over }) =>
      setting.consistency === "eventual" ? percentText(over) : [],
    );
    for (const percent of stated) expect(answer).toContain(percent);
  });

  it("only eventual consistency in several isolates over-admits", () => {
    for (const { setting, isolates, over } of measurements) {
      expect(over > 0).toBe(setting.consistency === "eventual" && isolates > 1);
    }
  });
});
