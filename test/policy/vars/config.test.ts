/** The demo limits, which are in effect while nothing is configured, and the variables `SAMPLE` and `DENIALS`. */
import { expect, it } from "vitest";
import { configOf, placesOf, problemsIn, whole } from "../parsed.ts";

it.for(["", null, undefined])(
  "without limits and ORIGIN, which are %j, the demo limits are in effect with a warning",
  (value) => {
    const { origin, policies, warnings } = configOf({ LIMITS: value, ORIGIN: value });
    expect(origin).toEqual({ kind: "demo" });
    expect(policies.map(({ name, limits }) => [name, limits.map((limit) => limit.limit)])).toEqual([["default", [5]]]);
    expect(warnings).toEqual([expect.stringMatching(/^LIMITS and ORIGIN are not set: the demo/)]);
  },
);

it.for([
  [{ STRATEGY: "sliding-log" }, "LIMITS"],
  [{ LIMTS: "5/minute" }, "POLICIES"],
  [{ REGION: "eu" }, "POLICIES"],
  [{ ORIGIN: "https://api.example.com" }, "POLICIES"],
] as const)("%j without limits does not start the demo", ([others, place]) => {
  expect(placesOf({ KEY_SECRET: "the tests' secret", ...others })).toEqual([place]);
});

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

it.for([
  [undefined, 10_000],
  ["1000", 1_000],
  [100_000, 100_000],
  ["off", null],
])("DENIALS = %j logs at most %j denials of each policy", ([DENIALS, most]) => {
  expect(configOf({ DENIALS }).mostDenials).toBe(most);
});

it.for(["999", 100_001, "1e4", 1_000.5, "on", true, -1])(
  "DENIALS = %j is rejected, with the accepted values",
  (value) => {
    const accepted = 'the most logged denials of each policy, an integer from 1000 to 100000, or "off"';
    expect(problemsIn({ ...whole, DENIALS: value })).toEqual([{ variable: "DENIALS", field: "", value, accepted }]);
  },
);

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
