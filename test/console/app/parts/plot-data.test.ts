/** Which value of a plot the cursor shows. */
import { describe, expect, it } from "vitest";
import { indexAt } from "../../../../src/console/app/parts/plot-data.ts";

describe("the value at an instant", () => {
  it("the cursor in the first half of a long step shows the rate of this step, not of the one before", () => {
    const rates = { times: [60_000, 120_000, 122_000], stepMs: null };
    expect(indexAt(rates, 67_000)).toBe(1);
    expect(indexAt(rates, 119_000)).toBe(1);
    expect(indexAt(rates, 120_000)).toBe(1);
    expect(indexAt(rates, 120_001)).toBe(2);
  });

  it("the cursor in the second half of a step of counts shows this step, not the next one", () => {
    const counts = { times: [0, 60_000, 120_000], stepMs: 60_000 };
    expect(indexAt(counts, 59_000)).toBe(0);
    expect(indexAt(counts, 60_000)).toBe(1);
    expect(indexAt(counts, 179_000)).toBe(2);
  });

  it("the cursor before the first value or after the last one shows the nearest value", () => {
    const rates = { times: [60_000, 62_000], stepMs: null };
    expect(indexAt(rates, 0)).toBe(0);
    expect(indexAt(rates, 99_000)).toBe(1);
    expect(indexAt({ times: [60_000, 120_000], stepMs: 60_000 }, 0)).toBe(0);
    expect(indexAt({ times: [], stepMs: null }, 0)).toBe(null);
  });
});
