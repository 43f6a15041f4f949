import { expect, it } from "vitest";
import { resolveCheck } from "../../../src/http/check/operations.ts";
import type { Runtime } from "../../../src/http/runtime.ts";
import { hmacWith, PartitionKeys } from "../../../src/policy/partition-key.ts";
import { policyOf } from "../../fakes/isolate.ts";

it("all checks of a dry-run policy use one policy object, so that values computed from it are cached", async () => {
  const overrides = [{ key: "vip", limits: "9/minute" }];
  const policies = [policyOf({ key: "header:x", dryRun: true, ban: "1h", overrides })];
  const partitions = new PartitionKeys(hmacWith("s"));
  const runtime = { policies, partitions, statistics: null } as unknown as Runtime;
  const decidedBy = async (key: string): Promise<unknown> => {
    const resolved = await resolveCheck({ runtime, tenant: null }, { key: [key], cost: 1 });
    return "kind" in resolved ? resolved : resolved.spend.policy;
  };
  const plain = await decidedBy("a");
  expect(plain).toEqual({ ...policies[0], isDryRun: false, ban: null });
  expect(await decidedBy("b")).toBe(plain);
  const overridden = await decidedBy("vip");
  expect(overridden).toMatchObject({ isDryRun: false, ban: null, limits: [{ limit: 9 }] });
  expect(await decidedBy("vip")).toBe(overridden);
});
