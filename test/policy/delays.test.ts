import { describe, expect, it } from "vitest";
import { placesOf } from "./parsed.ts";

const placesWith = (fields: object): string[] =>
  placesOf({ KEY_SECRET: "s", POLICIES: [{ name: "a", limits: "1/s", ...fields }] });

const queue = { limit: 1, window: "1s", strategy: "leaky-bucket" };
const police = { ...queue, mode: "police" };
const maxDelay = "5s";

describe("maxDelay", () => {
  it.for<[string, object]>([
    ["by the policy's strategy", { strategy: "leaky-bucket" }],
    ["by its own", { limits: ["1/s", queue] }],
    ["of an override alone", { overrides: [{ key: "203.0.113.7", limits: queue }] }],
  ])("maxDelay is valid with a queue %s", ([, fields]) => {
    expect(placesWith({ maxDelay, ...fields })).toEqual([]);
  });

  it.for<object>([{}, { limits: police }, { strategy: "token-bucket" }, { limits: "5/month" }])(
    "maxDelay without a queue is a problem: %j",
    (fields) => {
      expect(placesWith({ maxDelay, ...fields })).toEqual(["POLICIES [0].maxDelay"]);
    },
  );

  it("a maxDelay in a policy without a queue is reported together with the policy's other problems", () => {
    expect(placesWith({ maxDelay, timeout: "soon", name: "A", deny: ["x"] }).toSorted()).toEqual(
      ["deny[0]", "maxDelay", "name", "timeout"].map((field) => `POLICIES [0].${field}`),
    );
  });

  it.for<[object, string]>([
    [{ strategy: "leaky" }, "strategy"],
    [{ limits: { ...queue, limit: 0 } }, "limits.limit"],
    [{ limits: undefined }, "limits"],
    [{ overrides: [{ key: "203.0.113.7", limits: "1/soon" }] }, "overrides[0].limits.window"],
    [{ overrides: 5 }, "overrides"],
    [{ maxDelay: "soon" }, "maxDelay"],
  ])("maxDelay is not reported if an invalid field may be intended as a queue: %j", ([fields, place]) => {
    expect(placesWith({ maxDelay, ...fields })).toEqual([`POLICIES [0].${place}`]);
  });
});
