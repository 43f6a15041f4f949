/**
 * The row that all of a key is stored in: `[version, idle at, born at, number of segments, meters, reservations, slices,
 * batches]`, as JSON. What is missing at its end is empty. A meter is `[policy, snapshot]`; where all of them together are
 * too large for a row, the largest are `[policy, number]`, and their snapshots are stored as segments are.
 */
import { SyncDedup } from "./sync-dedup.ts";
import { Reservations } from "./reservations.ts";
import { Slices } from "./slices.ts";

export const rowVersion = 1;

/** A row of storage holds 2 MB, its name included. */
export const mostRowBytes = 2_000_000 - 2_048;

/** What a row is written of. */
export interface KeyParts {
  readonly idleAtMs: number;
  readonly bornAtMs: number;
  readonly meters: readonly (readonly [policy: string, snapshot: unknown])[];
  /** What follows the meters. */
  readonly rest: readonly unknown[];
}

/** A row, and the policies that do not fit in it: those whose meters are stored apart, and those that fit nowhere. */
export interface WrittenRow {
  readonly row: string;
  readonly apart: readonly string[];
  /** What is stored apart takes. */
  readonly apartBytes: number;
  readonly lost: readonly string[];
}

/**
 * @param numberOf the number of a text that is stored apart
 * @param segmentCount how many texts are stored apart, asked for after the last `numberOf`
 */
export function writtenRow(
  { idleAtMs, bornAtMs, meters, rest }: KeyParts,
  numberOf: (text: string) => number,
  segmentCount: () => number,
): WrittenRow {
  const rowOf = (all: readonly unknown[]): string =>
    JSON.stringify([rowVersion, idleAtMs, bornAtMs, segmentCount(), all, ...rest]);
  const row = rowOf(meters);
  if (row.length <= mostRowBytes) return { row, apart: [], apartBytes: 0, lost: [] };
  const texts = new Map(meters.map(([policy, snapshot]) => [policy, JSON.stringify(snapshot)]));
  const largest = [...texts].toSorted(([, one], [, other]) => other.length - one.length);
  const apart = new Map<string, number>();
  const lost = new Set<string>();
  // A number takes less than a snapshot that is worth moving.
  let apartBytes = 0;
  let excessBytes = row.length - mostRowBytes + meters.length * bytesOfNumber;
  for (const [policy, text] of largest) {
    if (excessBytes <= 0) break;
    excessBytes -= text.length;
    if (text.length > mostRowBytes) lost.add(policy);
    else {
      apart.set(policy, numberOf(text));
      apartBytes += text.length;
    }
  }
  const kept = meters.filter(([policy]) => !lost.has(policy));
  const written = kept.map(([policy, snapshot]) => [policy, apart.get(policy) ?? snapshot]);
  return { row: rowOf(written), apart: [...apart.keys()], apartBytes, lost: [...lost] };
}

const bytesOfNumber = 12;

/** The snapshot of a meter as its row has it: itself, or the number of its text; null for a text that is not there. */
export function snapshotAt(
  stored: unknown,
  textOf: (number: number) => string | undefined,
): unknown {
  if (typeof stored !== "number") return stored;
  const text = textOf(stored);
  return text === undefined ? null : jsonOf(text);
}

export interface ParsedRow {
  readonly bornAtMs: number;
  readonly meters: readonly (readonly [string, unknown])[];
  readonly reservations: Reservations;
  readonly batches: SyncDedup;
  readonly slices: Slices;
}

/** What a row says; null for what no version wrote. */
export function parsedRow(row: unknown): ParsedRow | null {
  const parsed = typeof row === "string" ? jsonOf(row) : null;
  if (!Array.isArray(parsed)) return null;
  const [version, , bornAtMs, , meters, open, lent, counted]: unknown[] = parsed;
  if (version !== rowVersion || typeof bornAtMs !== "number" || !Array.isArray(meters)) return null;
  const reservations = open === undefined ? new Reservations() : Reservations.revived(open);
  const slices = lent === undefined ? new Slices() : Slices.revived(lent);
  const batches = SyncDedup.revived(counted);
  return meters.every(isNamed) ? { bornAtMs, meters, reservations, slices, batches } : null;
}

const isNamed = (value: unknown): value is readonly [string, unknown] =>
  Array.isArray(value) && value.length === 2 && typeof value[0] === "string";

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return null;
  }
}

const head = new RegExp(`^\\[${rowVersion},(\\d+),(\\d+),(\\d+),`);

/** What the beginning of a row says; null for no row of a key. */
export function headOf(
  row: unknown,
): { idleAtMs: number; bornAtMs: number; hasSegments: boolean } | null {
  const text = typeof row === "string" ? row : "";
  const [, idleAtMs, bornAtMs, segments] = head.exec(text) ?? [];
  if (idleAtMs === undefined) return null;
  const hasSegments = segments !== "0";
  return { idleAtMs: Number(idleAtMs), bornAtMs: Number(bornAtMs), hasSegments };
}
