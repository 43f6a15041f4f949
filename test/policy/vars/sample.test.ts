/** The variable `SAMPLE`. */
import { expect, it } from "vitest";
import { configOf, problemsIn, whole } from "../parsed.ts";

it.for<[unknown, number | null]>([
  [undefined, 64],
  ["", 64],
  ["1/1", 1],
  ["1/64", 64],
  ["1/1000", 1_000],
  ["1/4096", 4_096],
  ["off", null],
])("SAMPLE = %j samples one key in %j", ([SAMPLE, oneKeyIn]) => {
  expect(configOf({ SAMPLE }).sampleOneKeyIn).toBe(oneKeyIn);
});

it.for(["1/0", "1/4097", "1/064", "2/64", "1/1.5", "64", "1 / 64", "on", 1, true, 0.5])(
  "SAMPLE = %j is rejected, with the accepted values",
  (value) => {
    expect(problemsIn({ ...whole, SAMPLE: value })).toEqual([
      {
        variable: "SAMPLE",
        field: "",
        value,
        accepted: 'a share of the keys such as "1/64", from "1/1" to "1/4096", or "off"',
      },
    ]);
  },
);
