/** The performance targets of Headgate, as ratios between contestants of one run. */
import { ratioOf, type Spread } from "./statistics.ts";
import type { ContestantOutcome, MeasuredTurn } from "./turns.ts";

export interface Target {
  readonly title: string;
  readonly of: string;
  readonly to: string;
  readonly by: "requests" | "p50 of one connection";
  /** A minimum for request rates, a maximum for p50. */
  readonly bound: number;
}

const atLeast = (title: string, of: string, to: string, bound: number): Target => ({
  title,
  of,
  to,
  by: "requests",
  bound,
});

export const targets: readonly Target[] = [
  atLeast("strict, one key, allowed ÷ no-op object call", "check", "noop", 0.95),
  atLeast("strict, one key, allowed ÷ hono-rate-limiter", "check", "store", 2),
  atLeast("denied, /check ÷ JSON response", "check-denied", "plain", 0.85),
  atLeast("denied, proxy ÷ JSON response", "proxy-denied", "plain", 0.85),
  atLeast("denied, /check ÷ hono-rate-limiter", "check-denied", "store-denied", 5),
  atLeast("denied, proxy ÷ hono-rate-limiter", "proxy-denied", "store-denied", 5),
  atLeast("leased, one key ÷ JSON response", "check-leased", "plain", 0.8),
  atLeast("new keys in 32 shards ÷ one key", "check-new-sharded", "check", 0.7),
  atLeast("proxy, strict, allowed ÷ pass-through and no-op object call", "proxy", "pass-noop", 0.9),
  {
    title: "/check ÷ no-op object call, p50 of one connection",
    of: "check",
    to: "noop",
    by: "p50 of one connection",
    bound: 1.1,
  },
];

export interface Verdict extends Target {
  /** Null when one of the two was not measured. */
  readonly ratio: Spread | null;
  readonly isMet: boolean | null;
}

export function judge(outcomes: readonly ContestantOutcome[]): Verdict[] {
  const measured = new Map(
    outcomes
      .filter(({ fault }) => fault === undefined)
      .map(({ contestant, turns }) => [contestant.id, turns]),
  );
  return targets.map((target) => {
    const [of, to] = [measured.get(target.of), measured.get(target.to)];
    if (of === undefined || to === undefined) return { ...target, ratio: null, isMet: null };
    const value = target.by === "requests" ? perSecond : p50Alone;
    const ratio = ratioOf(of.map(value), to.map(value));
    const isMet =
      target.by === "requests" ? ratio.median >= target.bound : ratio.median <= target.bound;
    return { ...target, ratio, isMet };
  });
}

export const perSecond = ({ loaded }: MeasuredTurn): number => loaded.requests / loaded.seconds;

const p50Alone = ({ alone }: MeasuredTurn): number => alone.p50Ms;
