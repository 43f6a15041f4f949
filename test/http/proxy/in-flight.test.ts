/** Reservations of a request whose key has its own limits. */
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { parseConfig } from "../../../src/policy/vars/config.ts";
import { forwardAdmitted } from "../../../src/http/proxy/enforce.ts";
import { ChargeResult } from "../../../src/limiter/isolate/outcome.ts";
import { platformClock } from "../../../src/limiter/clock.ts";
import { createMeter, parseLimits } from "../../../src/strategies/index.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it("slots are renewed by the window of a key rule, which may be shorter than that of the policy", async () => {
  const [policy] = parseConfig({
    KEY_SECRET: "a secret of at least 32 characters",
    POLICIES: [{ name: "p", limits: "5/minute", strategy: "concurrency" }],
  }).policies;
  if (policy === undefined) throw new Error("a policy was configured");
  const limits = parseLimits("9/4s", { policy: "p", strategy: "concurrency" });
  const decision = createMeter(limits).look(1, 0);
  const admission = new ChargeResult();
  admission.addOutcomes([{ kind: "decided", policy: { ...policy, limits }, decision, decidedAtMs: 0 }]);
  const renew = vi.fn<() => Promise<void>>().mockResolvedValue();
  void admission.add({ renew, giveBack: async () => undefined });
  const spend = { policy, partitionKey: "k", cost: 1, ttlMs: 60_000 };
  const origin = Promise.withResolvers<Response>();
  const request = new Request("https://a.example/");
  const answer = forwardAdmitted(
    request,
    { spends: [spend], admission },
    { runtime: { clock: platformClock }, forward: () => origin.promise, waitUntil: () => undefined },
  );
  await vi.advanceTimersByTimeAsync(6_000);
  expect(renew).toHaveBeenCalledTimes(3);
  origin.resolve(Object.defineProperty(new Response(null), "webSocket", { value: null }));
  await answer;
});
