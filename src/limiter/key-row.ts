/**
 * The row that all of a key is stored in: `[version, idle at, born at, number of segments, meters, reservations, slices,
 * batches]`, as JSON. What is missing at its end is empty.
 */
import { Batches } from "./batches.ts";
import { Reservations } from "./reservations.ts";
import { Slices } from "./slices.ts";

export const rowVersion = 1;

export interface ParsedRow {
  readonly bornAtMs: number;
  readonly meters: readonly (readonly [string, unknown])[];
  readonly reservations: Reservations;
  readonly batches: Batches;
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
  const batches = Batches.revived(counted);
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
