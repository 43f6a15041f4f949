/** A sample of the denials between two beats, for the live tail. */
import type { PlainKey } from "../../config/index.ts";
import type { TailEntry } from "../protocol.ts";

export interface SampledDenial extends Omit<TailEntry, "agoMs" | "sealed"> {
  readonly atMs: number;
  /** Null when keys are not revealed, or when the key is too long. */
  readonly plain: PlainKey | null;
}

const mostSampled = 20;

/**
 * The first denials. Afterwards, those of a policy replace those of a policy with more in the sample, so that a flood of one
 * policy hides no other.
 */
export class TailSample {
  #denials: SampledDenial[] = [];
  readonly #counts = new Map<string, number>();

  /** Whether `add` would change the sample: in a flood, most denials need not be described. */
  wants(policy: string): boolean {
    return this.#denials.length < mostSampled || this.#crowded(policy) !== null;
  }

  add(denial: SampledDenial): void {
    const { policy } = denial;
    if (this.#denials.length >= mostSampled) {
      const crowded = this.#crowded(policy);
      if (crowded === null) return;
      const last = this.#denials.findLastIndex((each) => each.policy === crowded);
      this.#denials.splice(last, 1);
      this.#counts.set(crowded, (this.#counts.get(crowded) ?? 0) - 1);
    }
    this.#denials.push(denial);
    this.#counts.set(policy, (this.#counts.get(policy) ?? 0) + 1);
  }

  /** Removes and returns the sample. */
  drain(): readonly SampledDenial[] {
    const denials = this.#denials;
    this.#denials = [];
    this.#counts.clear();
    return denials;
  }

  /** The policy with the most denials, if it has at least two more than this one. */
  #crowded(policy: string): string | null {
    const own = this.#counts.get(policy) ?? 0;
    let most = own + 1;
    let crowded: string | null = null;
    for (const [name, count] of this.#counts) {
      if (count <= most) continue;
      most = count;
      crowded = name;
    }
    return crowded;
  }
}
