/**
 * Concurrency: at most L units in flight. A spend holds its slots until they are given back, or until the lease W has
 * passed, for work whose end was never told.
 *
 * Promise: never more than L slots are held, and none is held for longer than W. Bound: L in any span of W, not counting
 * what was given back in it. Known weakness: work that outlasts its lease is no longer counted.
 *
 * A lease is kept as a sliding log keeps a unit; what differs is that giving back is the rule, not the exception.
 */
import { slidingLog } from "./sliding-log.ts";
import type { Strategy } from "./strategy.ts";

export const concurrency: Strategy = { ...slidingLog, name: "concurrency", holdsSlots: true };
