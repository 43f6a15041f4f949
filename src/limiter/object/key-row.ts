/**
 * The storage row `k <key>`, a JSON list. In this one, the policy `api` has counted requests, a reservation `r1` of cost 2 and
 * a slice `s1` of 10 units are open, and one isolate has synced:
 *
 *     [1,                                    version
 *      1799971261000, 1799971200000,         idle at (a sweep may then delete it), first written at
 *      0,                                    number of its rows `s <key> <number>`
 *      [["api", [2, 1799971201000, ["fixed-window 1m", 59000, "ofHAofBofG"]]]],    [policy, snapshot of its meter]
 *      [[[{"limit": 100, "windowMs": 60000, …}]], ["r1", 60000, 1799971261000, 0, ["api", 0, 2, 1799971201000]]],
 *      [[[{"limit": 100, "windowMs": 60000, …}]], ["s1", 10, 2000, ["api", 0, 1799971203000]]],
 *      [["<isolate>", 1, 1799971201000]],    last sync batch of each isolate, and when it came
 *      [["api", 1799970000000, 7, 1799971203000, [{"id": "r1", "kind": "block"}]]],    key rules, see runtime-key-rules.ts
 *      [["api", 1799970000000, 6, "[]"]]]    policy rules of its charges, see seen-policy-rules.ts
 *
 * Reservations and slices are `[lists of limits, …entries]`, see open-entries.ts. Empty fields at the end are left out. A
 * version without runtime rules ignores the last two fields, and drops them when it writes the row. If all meters are too
 * large for one row, the largest are `[policy, number]`, and the row `s <key> <number>` holds the snapshot.
 */
import { jsonOrNull } from "../../validation/json.ts";
import { Reservations } from "./reservations.ts";
import { Slices } from "./slices.ts";
import { KeyRuleSets } from "./runtime-key-rules.ts";
import { isCount } from "../../strategies/index.ts";

/** Every row begins with the version. A version reads only its own rows. */
export const rowVersion = 1;

/** A row of storage holds 2 MB including its name (Cloudflare, SQLite storage limits). */
export const mostRowBytes = 2_000_000 - 2_048;

export interface KeyParts {
  readonly bornAtMs: number;
  readonly meters: readonly (readonly [policy: string, snapshot: unknown])[];
  readonly reservations: Reservations;
  readonly slices: Slices;
  readonly batches: SyncDedup;
  /** Stored lists, which `KeyRuleSets` and `KeyPolicyRules` read and write. */
  readonly rules: readonly unknown[];
  readonly policyRules: readonly unknown[];
}

/** Texts stored in separate rows: sealed segments of long logs, and snapshots that do not fit in the key's row. */
interface TextNumbers {
  /** The number of a text. A text that has none yet gets the next one. */
  readonly numberOf: (text: string) => number;
  /** How many texts `numberOf` was called with. */
  readonly count: () => number;
}

export interface WrittenRow {
  readonly row: string;
  /** Policies whose snapshots are stored in separate rows. */
  readonly apart: readonly string[];
  readonly apartBytes: number;
  /** Policies whose snapshots are too large for any row, and are not stored. */
  readonly lost: readonly string[];
}

export function writtenRow(parts: KeyParts, idleAtMs: number, texts: TextNumbers): WrittenRow {
  const { bornAtMs, meters } = parts;
  const rest = fieldsAfterMeters(parts);
  const rowOf = (stored: readonly unknown[]): string =>
    JSON.stringify([rowVersion, idleAtMs, bornAtMs, texts.count(), stored, ...rest]);
  const row = rowOf(meters);
  if (row.length <= mostRowBytes) return { row, apart: [], apartBytes: 0, lost: [] };
  const snapshots = meters.map(([policy, snapshot]) => [policy, JSON.stringify(snapshot)] as const);
  const apart = new Map<string, number>();
  const lost = new Set<string>();
  let apartBytes = 0;
  let excessBytes = row.length - mostRowBytes + meters.length * bytesOfNumber;
  for (const [policy, text] of snapshots.toSorted(([, a], [, b]) => b.length - a.length)) {
    if (excessBytes <= 0) break;
    excessBytes -= text.length;
    if (text.length > mostRowBytes) lost.add(policy);
    else {
      apart.set(policy, texts.numberOf(text));
      apartBytes += text.length;
    }
  }
  const stored = meters
    .filter(([policy]) => !lost.has(policy))
    .map(([policy, snapshot]) => [policy, apart.get(policy) ?? snapshot]);
  return { row: rowOf(stored), apart: [...apart.keys()], apartBytes, lost: [...lost] };
}

/** Upper bound on the JSON of a number in place of a snapshot. */
const bytesOfNumber = 12;

function fieldsAfterMeters(parts: KeyParts): unknown[] {
  const { reservations, slices, batches, rules, policyRules } = parts;
  const fields = [
    [reservations.isEmpty, () => reservations.snapshot()],
    [slices.isEmpty, () => slices.snapshot()],
    [batches.isEmpty, () => batches.snapshot()],
    [rules.length === 0, () => rules],
    [policyRules.length === 0, () => policyRules],
  ] as const;
  const last = fields.findLastIndex(([isEmpty]) => !isEmpty);
  return fields.slice(0, last + 1).map(([, written]) => written());
}

/** Returns the key of a row; null for a row that this version did not write. */
export function parsedRow(row: unknown): KeyParts | null {
  const parsed = typeof row === "string" ? jsonOrNull(row) : null;
  if (!Array.isArray(parsed)) return null;
  const [version, , bornAtMs, , meters, ...rest]: unknown[] = parsed;
  const [reservations, slices, batches, rules, policyRules] = rest;
  if (version !== rowVersion || typeof bornAtMs !== "number") return null;
  if (!Array.isArray(meters) || !meters.every(isNamed)) return null;
  return {
    bornAtMs,
    meters,
    reservations: new Reservations().read(reservations),
    slices: new Slices().read(slices),
    batches: SyncDedup.revived(batches),
    rules: listOf(rules),
    policyRules: listOf(policyRules),
  };
}

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

const isNamed = (value: unknown): value is readonly [string, unknown] =>
  Array.isArray(value) && value.length === 2 && typeof value[0] === "string";

/** The snapshot of a stored meter, which may be the number of a text; null if that text is missing or no JSON. */
export function snapshotAt(stored: unknown, textOf: (number: number) => string | undefined): unknown {
  if (typeof stored !== "number") return stored;
  const text = textOf(stored);
  return text === undefined ? null : jsonOrNull(text);
}

const headPattern = new RegExp(`^\\[${rowVersion},(\\d+),(\\d+),(\\d+),`);

/** Returns the head of a row without parsing the rest; null for a row that this version did not write. */
export function headOf(row: unknown): { idleAtMs: number; bornAtMs: number; hasTexts: boolean } | null {
  const [, idleAtMs, bornAtMs, textCount] = headPattern.exec(typeof row === "string" ? row : "") ?? [];
  if (idleAtMs === undefined) return null;
  return { idleAtMs: Number(idleAtMs), bornAtMs: Number(bornAtMs), hasTexts: textCount !== "0" };
}

/**
 * Renews a row whose key has live rules: a sweep must not delete it, even if its head says that it is idle.
 * @returns null for a row without live rules
 */
export function renewedRow(row: unknown, nowMs: number): { readonly row: string; readonly idleAtMs: number } | null {
  // Most rows have no rules: do not parse them.
  if (typeof row !== "string" || !row.includes('"kind":')) return null;
  const idleAtMs = KeyRuleSets.revived(parsedRow(row)?.rules).liveUntilMs(nowMs);
  if (idleAtMs <= nowMs) return null;
  const renewed = row.replace(headPattern, `[${rowVersion},${idleAtMs},$2,$3,`);
  return { row: renewed, idleAtMs };
}

/** Isolates retry every few seconds. A batch sent again after this counts twice, which never admits too much. */
const rememberedMs = 60_000;
const mostIsolates = 1_000;
const bytesEach = 120;

interface LastBatch {
  /** An isolate sends its next batch only when it knows that this one is counted. */
  readonly batch: number;
  readonly atMs: number;
}

/** The last sync batch of each isolate on a key. A batch that is sent again because its answer was lost counts once. */
export class SyncDedup {
  /** By isolate, in the order of `atMs`. */
  readonly #last = new Map<string, LastBatch>();

  get sizeBytes(): number {
    return this.#last.size * bytesEach;
  }

  get isEmpty(): boolean {
    return this.#last.size === 0;
  }

  /** Notes a batch. Returns false when it was counted before. */
  note(isolate: string, batch: number, nowMs: number): boolean {
    const before = this.#last.get(isolate)?.batch ?? 0;
    this.#last.delete(isolate);
    this.#last.set(isolate, { batch: Math.max(batch, before), atMs: nowMs });
    for (const [oldest, { atMs }] of this.#last) {
      if (this.#last.size <= mostIsolates && nowMs - atMs < rememberedMs) break;
      this.#last.delete(oldest);
    }
    return batch > before;
  }

  snapshot(): unknown[] {
    return [...this.#last].map(([isolate, { batch, atMs }]) => [isolate, batch, atMs]);
  }

  /** Reads a `snapshot`. Leaves out entries that this version did not write. */
  static revived(stored: unknown): SyncDedup {
    const revived = new SyncDedup();
    const rows: unknown[] = Array.isArray(stored) ? stored : [];
    for (const row of rows) {
      if (!Array.isArray(row)) continue;
      const [isolate, batch, atMs]: unknown[] = row;
      if (typeof isolate !== "string" || !isCount(batch) || !isCount(atMs)) continue;
      revived.#last.set(isolate, { batch, atMs });
    }
    return revived;
  }
}
