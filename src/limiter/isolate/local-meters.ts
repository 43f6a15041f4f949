/**
 * The isolate's own meters, which enforce limits while an object gives no answer. They also count the spends that objects
 * admit through this isolate, so that an outage does not start with a full quota. Spends of other isolates are unknown.
 */
import { type Decision, type Meter, mostStoredBytesOf, provisionalTtlMs } from "../../strategies/index.ts";
import type { CostOf } from "./charge-result.ts";
import { BoundedMap } from "../../policy/bounded-map.ts";
import type { Clock } from "../clock.ts";
import { internedMeter, type InternedMeter } from "../interned-limits.ts";
import { policyKey, type Spend } from "./outcome.ts";

/** Bound the memory of an isolate. The meters least recently used are evicted first. */
const maximumMeters = 1_024;
const maximumBytes = 6_000_000;
/**
 * Spends under limits whose state can grow larger, such as long logs, are not counted, so an outage begins with their
 * full quota.
 */
const maximumMeterBytes = 16_000;
/** Approximate memory of an entry without its meter. */
const entryBytes = 400;

/** Keeps slots for their whole window, because the isolate renews nothing. */
const wholeWindowMs = Number.MAX_SAFE_INTEGER;

/** Spends that an object has admitted and that the isolate's meters count too. */
export interface LocalCount {
  /** Counts the spends now. Later calls change nothing. */
  readonly book: () => void;
  /** Corrects the counted spends to their actual costs and frees their slots. */
  readonly settle: (costOf: CostOf) => void;
}

/** For a reply after the deadline: the isolate's meters have counted the request already. */
export const uncounted: LocalCount = { book: () => undefined, settle: () => undefined };

export class LocalMeters {
  readonly #now: Clock["now"];
  readonly #meters = new BoundedMap<InternedMeter>(maximumMeters, {
    mostBytes: maximumBytes,
    bytesOf: ({ meter }) => entryBytes + meter.sizeBytes(),
  });

  constructor({ now }: Clock) {
    this.#now = now;
  }

  look(spend: Spend, nowMs: number): Decision {
    return this.#meterOf(spend).look(spend.cost, nowMs);
  }

  /** Counts a denial, which extends elastic windows. */
  deny(spend: Spend, nowMs: number): void {
    this.#meterOf(spend).deny(nowMs);
  }

  /** @param openForMs for how long the spend can be settled exactly; 0 for a final spend */
  spend(spend: Spend, openForMs: number, nowMs: number): Decision {
    const meter = this.#meterOf(spend);
    const { cost, policy } = spend;
    if (openForMs === 0) return meter.consume(cost, nowMs);
    return meter.reserve({ cost, ttlMs: provisionalTtlMs(policy.limits, openForMs) }, nowMs);
  }

  /** Settles what `spend` has spent. Takes the same `openForMs`. */
  settle(spend: Spend, actualCost: number, spentAtMs: number, openForMs: number): void {
    const { policy, cost } = spend;
    const ttlMs = openForMs === 0 ? wholeWindowMs : provisionalTtlMs(policy.limits, openForMs);
    this.#meterOf(spend).settle({ cost, actualCost, spentAtMs, ttlMs }, this.#now());
  }

  /** Spends that an object has admitted, not yet counted. Skips policies that would not use the count. */
  count(spends: readonly Spend[]): LocalCount {
    const useful = spends.filter(isUseful);
    let bookedAtMs: number | null = null;
    return {
      book: () => {
        if (bookedAtMs !== null) return;
        bookedAtMs = this.#now();
        for (const spend of useful) {
          this.#meterOf(spend).book(spend.cost, bookedAtMs, bookedAtMs);
        }
      },
      settle: (costOf) => {
        if (bookedAtMs === null) return;
        for (const spend of useful) this.settle(spend, costOf(spend), bookedAtMs, 0);
      },
    };
  }

  forget(spend: Spend): void {
    this.#meters.delete(policyKey(spend));
  }

  #meterOf(spend: Spend): Meter {
    const name = policyKey(spend);
    const interned = internedMeter(spend.policy.limits, this.#meters.get(name));
    this.#meters.set(name, interned);
    return interned.meter;
  }
}

const isUseful = ({ policy }: Spend): boolean =>
  policy.onError === "local" && policy.limits.every((limit) => mostStoredBytesOf(limit) <= maximumMeterBytes);
