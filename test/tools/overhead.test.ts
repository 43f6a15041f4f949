/** The figures of `npm run bench -- overhead`. */
import { expect, it } from "vitest";
import type { MeasuredOverhead } from "./overhead/loads.ts";
import { medianOf, overheadOf, overheadRow } from "./overhead/table.ts";

const measured: MeasuredOverhead = {
  roundNs: {
    off: [100, 200, 900],
    "off again": [110, 190, 900],
    on: [150, 250, 930],
    all: [400, 500, 1_200],
    "1/64": [155, 260, 931],
    "1/1": [180, 270, 970],
  },
  deniedShare: 0.25,
  batchMs: [1],
};

it("the median is the value in the middle", () => {
  expect(medianOf([3, 1, 2])).toBe(2);
  expect(medianOf([5])).toBe(5);
});

it("the overhead is the median of the differences within each round, so that slow rounds do not distort it", () => {
  expect(overheadOf(measured, ["on", "off"])).toBe(50);
  expect(overheadOf(measured, ["all", "off"])).toBe(300);
  expect(overheadOf(measured, ["off again", "off"])).toBe(0);
  expect(overheadOf(measured, ["1/1", "on"])).toBe(30);
});

it("a row of the overhead table has the load, the share of denials, the medians and the differences", () => {
  const figures = ["200", "190", "250", "500", "260", "270", "0", "50", "300", "5", "30"];
  expect(overheadRow("mixed", measured)).toEqual(["mixed", "25.00 %", ...figures]);
});
