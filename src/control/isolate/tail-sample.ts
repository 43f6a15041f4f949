/** A sample of the denials between two beats, for the live tail. */
import type { PlainKey } from "../../policy/key.ts";
import type { TailEntry } from "../protocol.ts";

export interface SampledDenial extends Omit<TailEntry, "agoMs" | "sealed"> {
  readonly atMs: number;
  /** Null when keys are not revealed, or when the key is too long. */
  readonly plain: PlainKey | null;
}

const mostSampled = 20;

/**
 * Holds the first denials. When it is full, a denial replaces one of the policy with the most in the sample, so that a
 * flood of one policy hides no other.
 */
export class TailSample {
  #denials: SampledDenial[] = [];
  readonly #counts = new Map<string, number>();
  /** The greatest of `#counts`. */
  #most = 0;

  /**
   * Whether `add` would change the sample. If not, as for most denials of a flood, the caller need not describe the
   * denial.
   */
  wants(policy: string): boolean {
    return this.#denials.length < mostSampled || this.#most > (this.#counts.get(policy) ?? 0) + 1;
  }

  add(denial: SampledDenial): void {
    const { policy } = denial;
    if (!this.wants(policy)) return;
    if (this.#denials.length >= mostSampled) this.#dropCrowded();
    this.#denials.push(denial);
    this.#counts.set(policy, (this.#counts.get(policy) ?? 0) + 1);
    this.#most = Math.max(...this.#counts.values());
  }

  /** Removes and returns the sample. */
  drain(): readonly SampledDenial[] {
    const denials = this.#denials;
    this.#denials = [];
    this.#counts.clear();
    this.#most = 0;
    return denials;
  }

  /** Drops the last denial of the policy with the most. */
  #dropCrowded(): void {
    const last = this.#denials.findLastIndex(({ policy }) => this.#counts.get(policy) === this.#most);
    const [dropped] = this.#denials.splice(last, 1);
    if (dropped !== undefined) this.#counts.set(dropped.policy, this.#most - 1);
  }
}
