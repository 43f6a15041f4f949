/** Spends that an isolate drops when too many keys wait for an object that does not answer. */
import { scopeOf } from "../../fakes/isolate.ts";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { parseConfig } from "../../../src/policy/vars/config.ts";
import { LimiterClient } from "../../../src/limiter/isolate/client.ts";
import type { Spend } from "../../../src/limiter/isolate/outcome.ts";

const maximumQueued = 16_384;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date", "setTimeout"], now: Date.UTC(2100, 0, 1) });
});

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** Spends on new keys whose object never replies. Returns the lines logged so far. */
function spender(limits: string | readonly string[]): (keys: number) => Promise<readonly unknown[]> {
  const lines: unknown[] = [];
  vi.spyOn(console, "error").mockImplementation((line: string) => void lines.push(JSON.parse(line)));
  const never = new Promise(() => undefined);
  const objects = { getByName: () => ({ sync: () => never }) };
  const client = new LimiterClient(objects as unknown as Env["RATE_LIMITER"]);
  const [policy] = parseConfig({
    KEY_SECRET: "s".repeat(32),
    POLICIES: [{ name: "p", limits, consistency: "eventual" }],
  }).policies;
  if (policy === undefined) throw new Error("a policy was configured");
  let keys = 0;
  return async (count) => {
    for (const until = keys + count; keys < until; keys++) {
      const spend: Spend = { policy, partitionKey: `key-${keys}`, cost: 1 };
      // oxlint-disable-next-line no-await-in-loop
      await client.admit([spend], scopeOf());
    }
    return lines;
  };
}

const dropped = { event: "spends-dropped", policies: ["p"] };

it("an isolate keeps the spends of 16,384 keys, and logs once a second that it drops those of further keys", async () => {
  const spendOnNewKeys = spender("5/minute");
  expect(await spendOnNewKeys(maximumQueued)).toEqual([]);
  expect(await spendOnNewKeys(5)).toEqual([dropped]);
});

it("an isolate keeps the spends of fewer keys when the keys' policy has many limits", async () => {
  const limits = Array.from({ length: 16 }, (_, index) => `${1_000 + index}/${1 + index}h`);
  expect(await spender(limits)(maximumQueued)).toEqual([dropped]);
});
