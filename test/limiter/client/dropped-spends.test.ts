/** Spends that an isolate drops when too many keys wait for an object that does not answer. */
import { afterEach, expect, it, vi } from "vitest";
import { parseConfig } from "../../../src/config/index.ts";
import { LimiterClient } from "../../../src/limiter/client/client.ts";
import type { Spend } from "../../../src/limiter/client/outcome.ts";

afterEach(() => void vi.restoreAllMocks());

const maximumQueued = 16_384;

it("an isolate logs once per second that it drops the spends of keys beyond the 16,384 that it keeps", async () => {
  vi.useFakeTimers({ toFake: ["Date", "setTimeout"], now: Date.UTC(2100, 0, 1) });
  const lines: unknown[] = [];
  vi.spyOn(console, "error").mockImplementation(
    (line: string) => void lines.push(JSON.parse(line)),
  );
  const never = new Promise(() => undefined);
  const objects = { getByName: () => ({ sync: () => never }) };
  const client = new LimiterClient(objects as unknown as Env["RATE_LIMITER"]);
  const [policy] = parseConfig({
    KEY_SECRET: "s".repeat(32),
    POLICIES: [{ name: "p", limits: "5/minute", consistency: "eventual" }],
  }).policies;
  if (policy === undefined) throw new Error("a policy was configured");
  const spendOnNewKeys = async (keys: number, prefix: string): Promise<void> => {
    for (let key = 0; key < keys; key++) {
      const spend: Spend = { policy, partitionKey: `${prefix}-${key}`, cost: 1 };
      // oxlint-disable-next-line no-await-in-loop
      await client.admit([spend], () => undefined);
    }
  };
  await spendOnNewKeys(maximumQueued, "first");
  expect(lines).toEqual([]);
  await spendOnNewKeys(5, "more");
  expect(lines).toEqual([{ event: "spends-dropped", policies: ["p"] }]);
  vi.useRealTimers();
});
