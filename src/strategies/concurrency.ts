/**
 * Concurrency: at most L units in flight. A spend holds its slots until they are given back or the lease W has passed,
 * which frees the slots of work whose end is never reported.
 *
 * Promise: at most L slots are held, none for longer than W. Bound: L in any span of W, not counting slots given back in
 * it. Known weakness: work that outlasts its lease is no longer counted.
 *
 * A held slot is kept like a unit of a sliding log. The difference is that giving it back is the normal case.
 */
import { slidingLog } from "./sliding-log.ts";
import type { Strategy } from "./strategy.ts";

export const concurrency: Strategy = {
  ...slidingLog,
  name: "concurrency",
  holdsSlots: true,
  account(limit, state, nowMs) {
    const terms = slidingLog.account(limit, state, nowMs);
    return terms.kind === "log" ? { kind: "slots", slots: terms.units, oldest: terms.oldest } : terms;
  },
};
