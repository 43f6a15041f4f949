/** For how long a meter keeps what it takes to give a provisional spend back. */
import { type Limit, holdsSlots } from "../strategies/index.ts";

/**
 * A meter frees the slots of a reservation when its ttl is over. A provisional spend that stands keeps its slots for the
 * whole window, so its ttl lasts no less than that.
 * @param provisionalMs for how long it may be given back, in milliseconds
 */
export const provisionalTtlMs = (limits: readonly Limit[], provisionalMs: number): number =>
  limits.reduce(
    (ttlMs, limit) => (holdsSlots(limit) ? Math.max(ttlMs, limit.windowMs) : ttlMs),
    provisionalMs,
  );
