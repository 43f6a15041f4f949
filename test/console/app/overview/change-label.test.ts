/** The label of a mark on the time axis. */
import { describe, expect, it } from "vitest";
import type { PolicyView } from "../../../../src/admin/wire.ts";
import { labelsOf } from "../../../../src/console/app/overview/change-label.ts";
import { entry, rule } from "../audit-entries.ts";

const policy = (source: "configuration" | "rule"): PolicyView => ({
  name: "api",
  key: ["ip"],
  mode: { value: "enforce", source: "configuration" },
  limits: {
    value: [
      { name: "a", limit: 10, windowMs: 60_000, strategy: "sliding-log" },
      { name: "b", limit: 50, windowMs: 3_600_000, strategy: "sliding-log" },
    ],
    source,
  },
  allow: [],
  deny: [],
  overrides: [],
  rules: [],
  refused: [],
  epoch: 0,
  version: 0,
  configured: { mode: "enforce", limits: [] },
});

const limits = (...units: readonly number[]) =>
  rule({
    scope: "key",
    kind: "limits",
    keyId: "GVw6brpippg4",
    limits: units.map((limit, index) => ({ limit, window: index === 0 ? "1m" : "1h" })),
  });
const block = rule({ scope: "key", kind: "block", keyId: "GVw6brpippg4" });

describe("the label of a mark", () => {
  it.each([
    [{ after: limits(20, 100) }, "Boosted 2x"],
    [{ action: "replace" as const, before: limits(20, 100), after: limits(50, 250) }, "Boosted 5x"],
    [{ after: limits(20, 50) }, "Boosted to 20/1m; 50/1h"],
    [{ after: { ...limits(20, 50), factor: 2 } }, "Boosted 2x"],
    [{ after: limits(5, 25) }, "Limits 5/1m; 25/1h"],
    [{ after: limits(100) }, "Limits 100/1m"],
    [{ action: "replace" as const, before: limits(20, 100), after: limits(20, 100) }, "Boost changed"],
    [{ action: "delete" as const, before: limits(20, 100) }, "Boost removed"],
    [{ action: "expire" as const, before: limits(20, 100) }, "Boost expired"],
    [{ action: "delete" as const, before: limits(5, 25) }, "Limits removed"],
    [{ after: block }, "Blocked"],
    [{ action: "delete" as const, before: block }, "Block removed"],
    [{ after: rule() }, "Mode dry-run"],
    [{ after: rule({ kind: "limits", limits: "9/h" }) }, "Limits 9/h"],
    [{ after: rule({ kind: "deny", entries: ["192.0.2.1"] }) }, "Deny list changed"],
    [{ action: "reset" as const, policy: "api", keyId: "GVw6brpippg4" }, "Usage reset"],
    [{ action: "rollback" as const, before: block }, "Rolled back"],
  ])("the label of the change %o is %s", (fields, label) => {
    expect(labelsOf(entry({ seq: 1, ...fields }), [policy("configuration")], null).shortLabel).toBe(label);
  });

  it("the label of a mark has the limits instead of a factor when a rule already sets the limits of the policy", () => {
    const change = entry({ seq: 1, after: limits(20, 100) });
    expect(labelsOf(change, [policy("rule")], null).shortLabel).toBe("Boosted to 20/1m; 100/1h");
  });

  it("the label of a mark names the key and the operator, unless the rule has expired or space is short", () => {
    const labels = labelsOf(entry({ seq: 1, after: block }), [], "203.0.113.7");
    expect(labels).toEqual({ label: "Blocked (203.0.113.7) by ops", shortLabel: "Blocked" });
    expect(labelsOf(entry({ seq: 1, after: rule() }), [], null).label).toBe("Mode dry-run by ops");
    const expired = entry({ seq: 1, action: "expire", before: block });
    expect(labelsOf(expired, [], "203.0.113.7").label).toBe("Block expired (203.0.113.7)");
  });
});
