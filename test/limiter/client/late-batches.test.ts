import { describe, expect, it, vi } from "vitest";
import { parseConfig, type Policy } from "../../../src/config/index.ts";
import { LimiterClient } from "../../../src/limiter/client/client.ts";
import { Limiter } from "../../../src/limiter/object/limiter.ts";
import type { BatchCall, RefundCall } from "../../../src/limiter/protocol.ts";
import type { Spend } from "../../../src/limiter/client/outcome.ts";
import { MemoryStorage } from "../../fakes/memory-storage.ts";

type Objects = ConstructorParameters<typeof LimiterClient>[0];

const policyOf = (fields: object): Policy => {
  const policies = [{ name: "p", limits: "5/hour", strategy: "sliding-log", ...fields }];
  const [policy] = parseConfig({ KEY_SECRET: "s", POLICIES: policies }).policies;
  if (policy === undefined) throw new Error("a policy was configured");
  return policy;
};

/** A real limiter that answers a batch only when `goOn` is called. */
function slow(): { objects: Objects; goOn: () => void; limiter: Limiter; refunds: RefundCall[] } {
  const waiting = Promise.withResolvers<void>();
  const limiter = new Limiter({
    storage: new MemoryStorage(),
    now: () => 1_000,
    after: () => () => undefined,
  });
  const refunds: RefundCall[] = [];
  const stub = {
    batch: async (call: BatchCall) => {
      await waiting.promise;
      return limiter.batch(call);
    },
    refund: async (call: RefundCall) => {
      refunds.push(call);
      limiter.refund(call);
    },
  };
  return {
    objects: { getByName: () => stub } as unknown as Objects,
    goOn: () => waiting.resolve(),
    limiter,
    refunds,
  };
}

/** A clock whose timers are due at once: each deadline passes before the answer. */
const immediately = {
  now: () => 1_000,
  after: (_: number, act: () => void) => {
    queueMicrotask(act);
    return () => undefined;
  },
};

const left = (limiter: Limiter, { name: policy, limits }: Policy, key = "k"): unknown =>
  limiter.look({ key, charges: [{ policy, limits, cost: 1 }] }).decisions[0]?.limits[0]?.remaining;

/** Asks for a batch whose answer comes only after its deadline. */
async function askLate(
  spends: readonly Spend[],
): Promise<ReturnType<typeof slow> & { kinds: string[] }> {
  const errors = vi.spyOn(console, "error").mockReturnValue(undefined);
  const object = slow();
  const late: Promise<unknown>[] = [];
  const client = new LimiterClient(object.objects, immediately);
  const outcomes = await client.admitEach(spends, (work) => void late.push(work));
  object.goOn();
  await Promise.all(late);
  errors.mockRestore();
  return { ...object, kinds: outcomes.map(({ kind }) => kind) };
}

describe("a batch whose answer comes after its deadline", () => {
  it.each([
    ["closed", 5],
    ["open", 3],
    ["local", 3],
  ] as const)(
    "keeps its spends only where the policy let them in: onError = %s",
    async (onError, rest) => {
      const policy = policyOf({ onError, objects: "sharded", shards: 1 });
      const spend = { policy, partitionKey: "k", cost: 1 };
      const { limiter, kinds } = await askLate([
        spend,
        { ...spend },
        { ...spend, partitionKey: "l" },
      ]);
      expect(kinds).toEqual([onError, onError, onError]);
      expect(left(limiter, policy)).toBe(rest);
      expect(left(limiter, policy, "l")).toBe(rest === 5 ? 5 : 4);
    },
  );

  it("gives back slots of a closed policy", async () => {
    const policy = policyOf({ onError: "closed", strategy: "concurrency" });
    const { limiter } = await askLate([{ policy, partitionKey: "k", cost: 2 }]);
    expect(left(limiter, policy)).toBe(5);
  });

  it("gives back nothing for looks and for what was denied", async () => {
    const policy = policyOf({ onError: "closed" });
    const spend = { policy, partitionKey: "k", cost: 1 };
    const { limiter, refunds } = await askLate([
      { ...spend, cost: 0 },
      { ...spend, cost: 6 },
      { ...spend, cost: 4 },
    ]);
    expect(left(limiter, policy)).toBe(5);
    expect(refunds.flatMap(({ charges }) => charges.map(({ cost }) => cost))).toEqual([4]);
  });
});
