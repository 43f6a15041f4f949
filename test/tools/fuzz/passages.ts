/** Checks of limits whose units return during a run: bans, slots and queues. */
import { queue, denialsUntilBan } from "./by-rule.ts";

interface DenialCounts {
  denials: number;
  bans: number;
  lost: number;
}

/** A request that a queue allowed at some time between these two instants. */
interface QueuedAllow {
  readonly sentAtMs: number;
  readonly answeredAtMs: number;
}

/** A request in a queue that has no response yet. */
export interface QueuedRequest {
  readonly leave: (isLetIn: boolean) => void;
}

export class TimedLimits {
  readonly #denials = new Map<string, DenialCounts>();
  readonly #queues = new Map<string, QueuedAllow[]>();

  isBanned(key: string): boolean {
    return (this.#denials.get(key)?.bans ?? 0) > 0;
  }

  recordDenial(key: string, isBan: boolean): void {
    const known = this.#countsOf(key);
    if (isBan) known.bans++;
    else known.denials++;
  }

  /** Records that a denial may have counted towards a ban. */
  recordUnknown(key: string): void {
    this.#countsOf(key).lost++;
  }

  enter(key: string): QueuedRequest {
    const sentAtMs = Date.now();
    const passed = this.#queues.get(key) ?? [];
    this.#queues.set(key, passed);
    return {
      leave: (isLetIn) => {
        if (isLetIn) passed.push({ sentAtMs, answeredAtMs: Date.now() });
      },
    };
  }

  /** @returns the faults in how often keys were denied before their bans */
  banFaults(): string[] {
    return [...this.#denials].flatMap(([key, { denials, bans, lost }]) => {
      const isLate = denials >= denialsUntilBan;
      const isEarly = bans > 0 && denials + lost < denialsUntilBan - 1;
      return isLate || isEarly ? [`"${key}" was banned after ${denials} denials`] : [];
    });
  }

  /** @returns the faults in how many requests a queue has allowed over time */
  queueFaults(): string[] {
    return [...this.#queues].flatMap(([key, passed]) => {
      const most = Math.max(0, ...passed.map(({ sentAtMs }) => excessSince(sentAtMs, passed)));
      return most === 0 ? [] : [`the queue of "${key}" allowed ${most} requests more than fit`];
    });
  }

  #countsOf(key: string): DenialCounts {
    const known = this.#denials.get(key) ?? { denials: 0, bans: 0, lost: 0 };
    this.#denials.set(key, known);
    return known;
  }
}

/** The largest excess of allowed requests over the limit, between any two instants. */
function excessSince(sinceMs: number, passed: readonly QueuedAllow[]): number {
  const { limit, windowMs, maxDelayMs } = queue;
  const capacity = Math.floor((maxDelayMs * limit) / windowMs) + 1;
  const answeredAtMs = passed
    .filter(({ sentAtMs }) => sentAtMs >= sinceMs)
    .map((each) => each.answeredAtMs)
    .toSorted((a, b) => a - b);
  const excesses = answeredAtMs.map((atMs, index) => {
    // The two clocks of the machine each round to a millisecond.
    const left = Math.ceil((limit * (atMs - sinceMs + 2)) / windowMs);
    return index + 1 - capacity - left;
  });
  return Math.max(...excesses);
}
