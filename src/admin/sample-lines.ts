/** The lines of `GET /api/samples`: one for each key and chunk. */
import type { SampledArrival, SampledEvent, SampledKeys } from "../control/sample-codec.ts";
import { isSampledKey } from "../control/sampled-keys.ts";
import type { ArrivalRow, SampleLine, SettlementRow } from "./wire.ts";

/** The part of the samples that an answer has. */
export interface SampleRange {
  /** Inclusive. */
  readonly fromMs: number;
  /** Exclusive. */
  readonly toMs: number;
  /** Keys that a sample of one key in this many does not have are left out. */
  readonly oneKeyIn: number;
}

/** The reservations of arrivals of the range, as far as they are settled in it, belong to the range. */
export function inRange(keys: SampledKeys, { fromMs, toMs, oneKeyIn }: SampleRange): SampledKeys {
  const isIn = (event: SampledEvent): boolean => {
    const arrivedAtMs = event.kind === "arrival" ? event.atMs : event.spentAtMs;
    return arrivedAtMs >= fromMs && arrivedAtMs < toMs && event.atMs < toMs;
  };
  return new Map(
    [...keys]
      .filter(([key]) => isSampledKey(key, oneKeyIn))
      .map(([key, events]) => [key, events.filter(isIn)] as const)
      .filter(([, events]) => events.length > 0),
  );
}

/** Each line ends with a line break. */
export const sampleLines = (keys: SampledKeys): string =>
  [...keys].flatMap(([id, events]) => linesOfKey(id, events)).join("");

function linesOfKey(id: string, events: readonly SampledEvent[]): string[] {
  const own: ArrivalRow[] = [];
  const withOtherLimits: ArrivalRow[] = [];
  const unsettled = new Map<string, ArrivalRow[]>();
  for (const event of events) {
    if (event.kind !== "arrival") continue;
    const row = rowOf(event, unsettled);
    (event.hasOtherLimits ? withOtherLimits : own).push(row);
  }
  const settlements: SettlementRow[] = [];
  for (const event of events) {
    if (event.kind !== "settlement") continue;
    const { atMs, spentAtMs, cost, actualCost } = event;
    const row = unsettled.get(placeOf(spentAtMs, cost))?.shift();
    if (row === undefined) settlements.push([spentAtMs, cost, atMs, actualCost]);
    else [row[4], row[5]] = [atMs, actualCost];
  }
  const lines: SampleLine[] = [];
  if (own.length > 0 || settlements.length > 0) {
    lines.push({ id, arrivals: own, ...(settlements.length > 0 && { settlements }) });
  }
  if (withOtherLimits.length > 0) {
    lines.push({ id, arrivals: withOtherLimits, hasOtherLimits: true });
  }
  return lines.map((line) => `${JSON.stringify(line)}\n`);
}

const placeOf = (atMs: number, cost: number): string => `${atMs} ${cost}`;

/** @param unsettled receives the rows of arrivals that may be settled */
function rowOf({ atMs, cost, outcome, ttlMs }: SampledArrival, unsettled: Map<string, ArrivalRow[]>): ArrivalRow {
  if (ttlMs === 0) return [atMs, cost, outcome];
  const row: ArrivalRow = [atMs, cost, outcome, ttlMs, null, cost];
  // The object has made no other reservation.
  if (outcome !== "allowed") return row;
  const place = placeOf(atMs, cost);
  unsettled.set(place, [...(unsettled.get(place) ?? []), row]);
  return row;
}
