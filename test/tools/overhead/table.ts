/** The figures of the measured overhead. */
import { percent, type Row } from "../table.ts";
import { type MeasuredOverhead, type Mode, modes } from "./loads.ts";

export function medianOf(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

/**
 * The median of the differences between two modes within a round, in nanoseconds. A slow round is slow in all modes.
 */
export function overheadOf({ roundNs }: MeasuredOverhead, [mode, base]: Comparison): number {
  return medianOf(roundNs[mode].map((ns, round) => ns - (roundNs[base][round] ?? Number.NaN)));
}

/** A mode, and the mode with which it is compared. */
export type Comparison = readonly [mode: Mode, base: Mode];

export const comparisons: readonly Comparison[] = [
  ["off again", "off"],
  ["on", "off"],
  ["all", "off"],
  ["1/64", "on"],
  ["1/1", "on"],
];

export function overheadRow(load: string, measured: MeasuredOverhead): Row {
  const { roundNs, deniedShare } = measured;
  return [
    load,
    `${percent(deniedShare, 1)} %`,
    ...modes.map((mode) => Math.round(medianOf(roundNs[mode])).toString()),
    ...comparisons.map((each) => Math.round(overheadOf(measured, each)).toString()),
  ];
}
