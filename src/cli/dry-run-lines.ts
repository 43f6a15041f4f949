/**
 * The would-be denials of dry runs in the output of `npm start`: the first of each policy, and then their number every ten
 * seconds. One line for each would hide all others.
 */
import { jsonOrNull } from "../validation/json.ts";
import { asText, isRecord } from "../validation/problems.ts";

export const summaryPauseMs = 10_000;

interface WouldBeDenials {
  requests: number;
  readonly keys: Set<string>;
}

export class DryRunLines {
  readonly #print: (line: string) => void;
  /** By policy, since the last line about it. */
  readonly #counted = new Map<string, WouldBeDenials>();

  constructor(print: (line: string) => void) {
    this.#print = print;
  }

  /** Returns false for a line that is no would-be denial, which is left to the caller. */
  takes(line: string): boolean {
    if (!line.startsWith('{"event":"dry-run-denied"')) return false;
    const event = jsonOrNull(line);
    if (!isRecord(event)) return false;
    const policy = asText(event["policy"]);
    const counted = this.#counted.get(policy);
    if (counted === undefined) {
      this.#print(line);
      this.#counted.set(policy, { requests: 0, keys: new Set() });
      if (this.#counted.size === 1) this.#summarizeLater();
    } else {
      counted.requests += 1;
      if (typeof event["key"] === "string") counted.keys.add(event["key"]);
    }
    return true;
  }

  #summarizeLater(): void {
    setTimeout(() => this.#summarize(), summaryPauseMs).unref();
  }

  /** The next would-be denial of a policy without one in the meantime is a full line again. */
  #summarize(): void {
    for (const [policy, { requests, keys }] of this.#counted) {
      if (requests === 0) this.#counted.delete(policy);
      else {
        this.#print(summaryOf(policy, requests, keys.size));
        this.#counted.set(policy, { requests: 0, keys: new Set() });
      }
    }
    if (this.#counted.size > 0) this.#summarizeLater();
  }
}

const summaryOf = (policy: string, requests: number, keys: number): string => {
  const more = requests === 1 ? "1 more request" : `${requests} more requests`;
  return `Dry run of ${policy}: ${more} of ${keys === 1 ? "1 key" : `${keys} keys`} would have been denied in the last ${summaryPauseMs / 1_000} s.`;
};
