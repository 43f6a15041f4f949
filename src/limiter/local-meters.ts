/**
 * Limits that an isolate enforces by itself while an object gives no answer. It has counted what objects admitted
 * through it before, so that a failure does not begin with a full quota; what other isolates admit it cannot know.
 */
import { createMeter, type Decision, type Meter } from "../strategies/index.ts";
import type { Spend } from "./outcome.ts";

/** Bounds the memory of an isolate; the meters longest unused are the first to go. */
const mostMeters = 1_024;
/** A larger log is not kept in case of need: it would hold that many entries for every key. */
const mostLogged = 1_000;

export class LocalMeters {
  readonly #meters = new Map<string, Meter>();

  consume(spend: Spend, nowMs: number): Decision {
    return this.#meterOf(spend).consume(spend.cost, nowMs);
  }

  look(spend: Spend, nowMs: number): Decision {
    return this.#meterOf(spend).look(spend.cost, nowMs);
  }

  /** Counts what an object has admitted. */
  book(spends: readonly Spend[], nowMs: number): void {
    for (const spend of spends) {
      if (isWorthCounting(spend)) this.#meterOf(spend).book(spend.cost, nowMs, nowMs);
    }
  }

  /** Gives back what was consumed at `spentAtMs`, for a request that was not admitted after all. */
  refund(spends: readonly Spend[], spentAtMs: number): void {
    for (const spend of spends) this.#meterOf(spend).refund(spend.cost, spentAtMs, Date.now());
  }

  forget(spend: Spend): void {
    this.#meters.delete(nameOf(spend));
  }

  #meterOf(spend: Spend): Meter {
    const name = nameOf(spend);
    const meter = this.#meters.get(name) ?? createMeter(spend.policy.limits);
    // Put in again at the end: a Map lists its keys in the order of insertion.
    this.#meters.delete(name);
    this.#meters.set(name, meter);
    const [oldest] = this.#meters.keys();
    if (this.#meters.size > mostMeters && oldest !== undefined) this.#meters.delete(oldest);
    return meter;
  }
}

const nameOf = ({ policy, partitionKey }: Spend): string => `${policy.name} ${partitionKey}`;

const isWorthCounting = ({ policy }: Spend): boolean =>
  policy.onError === "local" &&
  policy.limits.every(({ strategy, limit }) => strategy !== "sliding-log" || limit <= mostLogged);
