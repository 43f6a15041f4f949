/**
 * Answers to cached denials state waits and times in whole seconds. They are cached with the denial until one of these
 * seconds changes: the whole answer of the proxy, and that of `/check` except for its waits in milliseconds.
 */
import type { CachedDenial } from "../limiter/isolate/deny-cache.ts";

interface CachedValue<Value> {
  readonly value: Value;
  readonly dependencies: readonly unknown[];
  readonly fromAgeMs: number;
  /** Up to this age, all waits and times stay the same in whole seconds, rounded up. */
  readonly untilAgeMs: number;
}

export class CachedDenialValues<Value> {
  readonly #byDenial = new WeakMap<object, CachedValue<Value>>();

  /**
   * @param nowMs the time of the request
   * @param dependencies what the value depends on besides the denial and its age, compared by identity
   * @param build builds the value from the decision
   */
  get(denied: CachedDenial, nowMs: number, dependencies: readonly unknown[], build: () => Value): Value {
    const { denial, ageMs } = denied;
    const cached = this.#byDenial.get(denial);
    if (
      cached !== undefined &&
      ageMs >= cached.fromAgeMs &&
      ageMs <= cached.untilAgeMs &&
      dependencies.length === cached.dependencies.length &&
      dependencies.every((each, index) => each === cached.dependencies[index])
    ) {
      return cached.value;
    }
    const value = build();
    const untilAgeMs = ageMs + unchangedForMs(denied, nowMs);
    this.#byDenial.set(denial, { value, dependencies, fromAgeMs: ageMs, untilAgeMs });
    return value;
  }
}

/** For how many milliseconds all waits and times stay the same in whole seconds. */
function unchangedForMs({ outcomes }: CachedDenial, nowMs: number): number {
  const waitsMs = outcomes.flatMap(({ decision }) =>
    decision === null
      ? []
      : [
          decision.bannedForMs,
          ...decision.limits.flatMap(({ retryAfterMs, replenishAfterMs, resetAfterMs }) => [
            retryAfterMs ?? 0,
            replenishAfterMs,
            resetAfterMs,
          ]),
        ],
  );
  const running = waitsMs.filter((waitMs) => waitMs > 0);
  // Without a wait, the legacy fields state the time of the request in seconds, rounded up.
  const untilNextSecondMs = (1000 - (nowMs % 1000)) % 1000;
  return Math.min(untilNextSecondMs, ...running.map((waitMs) => (waitMs - 1) % 1000));
}
