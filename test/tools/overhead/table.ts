/** The figures of the measured overhead. */
import { percent, type Row } from "../table.ts";
import { type MeasuredOverhead, type Mode, modes } from "./loads.ts";

export function medianOf(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

/** The median of the differences to `off` within a round, in nanoseconds: slow rounds are slow in all modes. */
export function overheadOf({ roundNs }: MeasuredOverhead, mode: Mode): number {
  return medianOf(roundNs[mode].map((ns, round) => ns - (roundNs.off[round] ?? Number.NaN)));
}

const compared = ["off again", "on", "all"] as const satisfies Mode[];

export function overheadRow(load: string, measured: MeasuredOverhead): Row {
  const { roundNs, deniedShare } = measured;
  return [
    load,
    `${percent(deniedShare, 1)} %`,
    ...modes.map((mode) => Math.round(medianOf(roundNs[mode])).toString()),
    ...compared.map((mode) => Math.round(overheadOf(measured, mode)).toString()),
  ];
}
