import { afterEach, expect, it, vi } from "vitest";
import { parseConfig } from "../../../src/config/index.ts";
import { LimiterClient } from "../../../src/limiter/client/client.ts";
import type { Spend } from "../../../src/limiter/client/outcome.ts";

afterEach(() => void vi.restoreAllMocks());

const mostOpen = 16_384;

/** A client whose objects never answer, and which spends on as many keys. */
async function spendOn(keys: number): Promise<unknown[]> {
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
  for (let key = 0; key < keys; key++) {
    const spend: Spend = { policy, partitionKey: String(key), cost: 1 };
    // oxlint-disable-next-line no-await-in-loop
    await client.admit([spend], () => undefined);
  }
  return lines;
}

it("an isolate reports that it drops spends of more keys than it keeps, once a second", async () => {
  vi.useFakeTimers({ toFake: ["Date", "setTimeout"], now: Date.UTC(2100, 0, 1) });
  expect(await spendOn(mostOpen + 5)).toEqual([{ event: "spends-dropped", policies: ["p"] }]);
  vi.useRealTimers();
});
