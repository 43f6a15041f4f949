/** Lists of limits in a row: each is written once, for most of what is open for a key is by the same limits. */
import { isCount, type Limit, strategies } from "../../strategies/index.ts";
import { isRecord } from "../../validation/problems.ts";

export class LimitTable {
  readonly lists: (readonly Limit[])[] = [];
  readonly #indexes = new Map<readonly Limit[], number>();

  /** Where a list is found in `lists`. */
  indexOf(limits: readonly Limit[]): number {
    const index = this.#indexes.get(limits) ?? this.lists.push(limits) - 1;
    this.#indexes.set(limits, index);
    return index;
  }
}

/** The list that was written so; null for what cannot have been. */
export function limitsAt(lists: unknown, index: unknown): readonly Limit[] | null {
  const found: unknown = Array.isArray(lists) && isCount(index) ? lists[index] : undefined;
  return isLimits(found) ? found : null;
}

const isLimits = (value: unknown): value is readonly Limit[] =>
  Array.isArray(value) &&
  value.every(
    (limit) =>
      isRecord(limit) &&
      typeof limit["strategy"] === "string" &&
      strategies.has(limit["strategy"]) &&
      isCount(limit["limit"]) &&
      isCount(limit["windowMs"]),
  );
