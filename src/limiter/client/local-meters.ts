/**
 * Limits that an isolate enforces by itself while an object gives no answer. It has counted what objects admitted
 * through it before, so that a failure does not begin with a full quota; what other isolates admit it cannot know.
 */
import { type Decision, type Meter, mostStoredBytesOf } from "../../strategies/index.ts";
import type { Clock } from "../clock.ts";
import { internedMeter, type InternedMeter } from "../interned-limits.ts";
import { admits, type Outcome, type Spend } from "./outcome.ts";
import { provisionalTtlMs } from "../provisional-ttl.ts";
import { BoundedMap } from "../bounded-map.ts";

/** Bounds the memory of an isolate; the meters longest unused are the first to go. */
const mostMeters = 1_024;
const mostBytes = 6_000_000;
/** What may grow larger, such as a long log, is not kept in case of need: there would be one for every key. */
const mostStoredBytes = 16_000;

/** Nobody renews what is held here: it is held for its whole window. */
const wholeWindow = Number.MAX_SAFE_INTEGER;

/** What the isolate has counted, and when. */
export interface Counted {
  readonly spends: readonly Spend[];
  readonly atMs: number;
  /** For how long the meters keep what an exact settlement takes, in milliseconds; 0 when they do not. */
  readonly openForMs: number;
}

export const nothingCounted: Counted = { spends: [], atMs: 0, openForMs: 0 };

export class LocalMeters {
  readonly #now: Clock["now"];
  readonly #held = new BoundedMap<InternedMeter>(mostMeters, { mostBytes, bytesOf });

  constructor({ now }: Clock) {
    this.#now = now;
  }

  /**
   * What the policies' failure modes say; local limits too are spent by all or by none, but for dry runs.
   * @param provisionalMs for how long an object of another key may still deny the request; 0 when none can
   */
  fallBack(
    group: readonly Spend[],
    provisionalMs = 0,
  ): { readonly outcomes: Outcome[]; readonly counted: Counted } {
    const atMs = this.#now();
    const openForMs = group.reduce((ms, { ttlMs = 0 }) => Math.max(ms, ttlMs), provisionalMs);
    const look = (spend: Spend): Outcome =>
      fallBackOf(spend, () => this.#meterOf(spend).look(spend.cost, atMs));
    if (!group.map(look).every(admits)) {
      // Whichever of them denies, the request is denied to all.
      for (const spend of group.filter(isLocal)) this.#meterOf(spend).deny(atMs);
      return { outcomes: group.map(look), counted: nothingCounted };
    }
    const spends: Spend[] = [];
    const outcomes = group.map((spend) => {
      const outcome = fallBackOf(spend, () => this.#spend(spend, openForMs, atMs));
      if (outcome.kind === "local" && outcome.decision.allowed) spends.push(spend);
      return outcome;
    });
    return { outcomes, counted: { spends, atMs, openForMs } };
  }

  #spend(spend: Spend, openForMs: number, atMs: number): Decision {
    const meter = this.#meterOf(spend);
    const { cost, policy } = spend;
    if (openForMs === 0) return meter.consume(cost, atMs);
    return meter.reserve({ cost, ttlMs: provisionalTtlMs(policy.limits, openForMs) }, atMs);
  }

  /** What `fallBack` would answer, without spending. */
  fallBackLook(spend: Spend): Outcome {
    return fallBackOf(spend, () => this.#meterOf(spend).look(spend.cost, this.#now()));
  }

  /** Counts what an object has admitted, as far as it is worth it. */
  book(spends: readonly Spend[], nowMs: number): Counted {
    const worth = spends.filter(isWorthCounting);
    for (const spend of worth) this.#meterOf(spend).book(spend.cost, nowMs, nowMs);
    return { spends: worth, atMs: nowMs, openForMs: 0 };
  }

  /** Corrects what was consumed or booked to what it cost; slots are free again. */
  settle({ spends, atMs, openForMs }: Counted, costOf: (spend: Spend) => number): void {
    for (const spend of spends) {
      const ttlMs =
        openForMs === 0 ? wholeWindow : provisionalTtlMs(spend.policy.limits, openForMs);
      const reserved = { cost: spend.cost, spentAtMs: atMs, ttlMs };
      this.#meterOf(spend).settle({ ...reserved, actualCost: costOf(spend) }, this.#now());
    }
  }

  forget(spend: Spend): void {
    this.#held.delete(nameOf(spend));
  }

  #meterOf(spend: Spend): Meter {
    const name = nameOf(spend);
    const held = internedMeter(spend.policy.limits, this.#held.get(name));
    this.#held.set(name, held);
    return held.meter;
  }
}

/** About what an entry takes beside its meter. */
const bytesOfEntry = 400;

const bytesOf = ({ meter }: InternedMeter): number => bytesOfEntry + meter.sizeBytes();

const nameOf = ({ policy, partitionKey }: Spend): string => `${policy.name} ${partitionKey}`;

const isWorthCounting = ({ policy }: Spend): boolean =>
  policy.onError === "local" &&
  policy.limits.every((limit) => mostStoredBytesOf(limit) <= mostStoredBytes);

const isLocal = ({ policy }: Spend): boolean => policy.onError === "local";

function fallBackOf(spend: Spend, decide: () => Decision): Outcome {
  const { policy } = spend;
  return policy.onError === "local"
    ? { kind: "local", policy, decision: decide() }
    : { kind: policy.onError, policy };
}
