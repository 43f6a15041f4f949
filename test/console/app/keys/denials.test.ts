/** The denials of the last day: which policy has the most, and whether they are those of a dry run. */
import { describe, expect, it } from "vitest";
import type { PolicyMode } from "../../../../src/admin/wire.ts";
import { denialKind, mostDenying } from "../../../../src/console/app/keys/denials.ts";
import { point, startMs } from "../statistics.ts";

const points = [
  point(startMs, "login", { outcomes: { allowed: 90, denied: 2, blocked: 1 } }),
  point(startMs, "search", { outcomes: { allowed: 5, "dry-run-denied": 4 } }),
  point(startMs, "api", { outcomes: { allowed: 9 } }),
  point(startMs, "both", { outcomes: { banned: 1, "dry-run-denied": 1 } }),
];

const policy = (name: string, mode: PolicyMode = "enforce") => ({
  name,
  mode: { value: mode, source: "configuration" as const },
});

describe("denials of the last day", () => {
  it("the policy with the most denials is found with dry-run denials included", () => {
    const names = ["api", "login", "search"].map((name) => policy(name));
    expect(mostDenying(points, names)).toBe("search");
    expect(mostDenying(points, [policy("api")])).toBeNull();
    expect(mostDenying([], names)).toBeNull();
  });

  it("the list of denied keys is labelled by what the policy did in the last day, whatever its mode is now", () => {
    expect(denialKind(points, policy("login", "dry-run"))).toBe("denied");
    expect(denialKind(points, policy("search"))).toBe("would be denied");
    expect(denialKind(points, policy("both"))).toBe("denied or would be denied");
  });

  it("before the first denial, the list of denied keys is labelled by the policy's mode", () => {
    expect(denialKind(points, policy("api", "dry-run"))).toBe("would be denied");
    expect(denialKind(points, policy("api"))).toBe("denied");
  });
});
