import { expect, it } from "vitest";
import { parseConfig } from "../../src/policy/vars/config.ts";

const log = (window: string): object => ({ limit: 90_000, window, strategy: "sliding-log" });

const warningsOf = (...policies: readonly object[]): readonly string[] =>
  parseConfig({
    KEY_SECRET: "a secret of more than thirty-two characters",
    POLICIES: policies,
  }).warnings.filter((text) => text.includes("share the key"));

it("policies that share a key give a warning when their states together may exceed the maximum size of a row", () => {
  const policies = [
    { name: "a", key: ["ip"], limits: [log("1d")] },
    { name: "b", key: ["ip"], limits: [log("1d")] },
    { name: "d", key: ["ip"], limits: [log("1d")] },
    {
      name: "c",
      key: ["ip"],
      limits: ["5/minute"],
      overrides: [{ key: "192.0.2.1", limits: [log("1d")] }],
    },
  ];
  const [warning, ...others] = warningsOf(...policies);
  expect(others).toEqual([]);
  expect(warning).toMatch(
    /^POLICIES: the policies "a", "b", "d", "c" share the key ip, whose state may take 2\.\d MB: a row in storage holds 2 MB/,
  );
});

it("policies with different keys or objects, or with small states, give no warning about shared keys", () => {
  expect(
    warningsOf(
      { name: "a", key: ["ip"], limits: [log("1d")] },
      { name: "b", key: ["header:x-user"], limits: [log("1d")] },
      { name: "c", key: ["ip"], limits: [log("1d")], objects: "sharded" },
      { name: "d", key: ["ip"], limits: ["100/minute"] },
    ),
  ).toEqual([]);
});
