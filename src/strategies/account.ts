/** How a limit arrives at the units that it counts as used: the terms of the sum, for people to check. */
import type { Period } from "./strategy.ts";

/** Units that stop counting together. */
export interface LeavingUnits {
  readonly units: number;
  /** More than 0. */
  readonly leavesInMs: number;
}

/** The units of a bucket are counted in credits: `creditsPerUnit` make one unit. */
export interface BucketTerms {
  /** Credits of spent units that have not drained (leaky bucket) or been refilled (token bucket). */
  readonly owedCredits: number;
  readonly creditsPerUnit: number;
  /** Credits that drain at the end of each step. */
  readonly creditsPerStep: number;
  readonly stepMs: number;
  /** 0 when nothing is owed. */
  readonly nextStepInMs: number;
}

/**
 * The terms by kind. All numbers are integers of at least 0. Durations are in milliseconds, from the instant of the account.
 */
export type AccountTerms =
  /** Fixed window: the units of the open window. 0 units and 0 ms when none is open. */
  | {
      readonly kind: "window";
      readonly units: number;
      readonly endsInMs: number;
      /** Whether each request restarts the window. */
      readonly isElastic: boolean;
      /** For a calendar window. */
      readonly period: Period | null;
      readonly timezone: string | null;
    }
  /** Sliding-window counter: `currentUnits`, and the part of `previousUnits` in proportion to the overlap. */
  | {
      readonly kind: "two-windows";
      readonly currentUnits: number;
      readonly previousUnits: number;
      /**
       * How much of the window before is within the last `windowMs`. The current window ends after the same time. 0
       * when no window is open.
       */
      readonly overlapMs: number;
      readonly windowMs: number;
    }
  /** Sliding log: the units of the last window. The oldest of them leave together. */
  | {
      readonly kind: "log";
      readonly units: number;
      readonly oldest: LeavingUnits | null;
    }
  /** Sliding buckets: the units of each bucket that counts, the oldest first. */
  | {
      readonly kind: "buckets";
      readonly bucketMs: number;
      readonly buckets: readonly LeavingUnits[];
    }
  /** Token bucket, and leaky bucket in the mode `police`. */
  | (BucketTerms & { readonly kind: "level" })
  /** Leaky bucket in the mode `queue`. */
  | (BucketTerms & {
      readonly kind: "queue";
      /** Units that are allowed and have not departed. */
      readonly waitingUnits: number;
      /** The delay of the next request that is allowed. */
      readonly delayMs: number;
      /** Credits that may be owed beyond whole units, because `maxDelay` is not a whole number of slots. */
      readonly slackCredits: number;
    })
  /** Concurrency: held slots. The lease of the oldest ends first. */
  | {
      readonly kind: "slots";
      readonly slots: number;
      readonly oldest: LeavingUnits | null;
    };

/** The units that one limit counts at an instant. Those between them and the capacity remain. */
export interface LimitAccount {
  /** The used units: the sum of the terms and of `heldUnits`. It exceeds the capacity while there is a debt. */
  readonly used: number;
  /** Units that are lent to isolates. They count as spent. */
  readonly heldUnits: number;
  /** How the strategy arrives at its used units. */
  readonly terms: AccountTerms;
}

export const sumOf = (parts: readonly LeavingUnits[]): number => parts.reduce((sum, { units }) => sum + units, 0);
