/** The demo: limits that take effect while nothing is configured. */
import { expect, it } from "vitest";
import { configOf, placesOf } from "../parsed.ts";

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
