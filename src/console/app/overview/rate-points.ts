/** Rates at the times of a fixed grid. They depend neither on when the page was opened nor on how often it reads. */

/** The time between two reads, by the clock of the control plane. */
export interface ReadTime {
  readonly fromMs: number;
  readonly toMs: number;
  /** How long it was by the clock of the browser, which is right when either clock was set meanwhile. */
  readonly seconds: number;
  /** Reads failed, so its rate is not known. */
  readonly isLost: boolean;
}

export interface RatePoint {
  readonly atMs: number;
  /** The rate is the sum of the counts of these read times, by index, multiplied by these weights. Null: not known. */
  readonly weights: ReadonlyMap<number, number> | null;
}

const gridMs = 2_000;
/** Limits of 10 seconds are common. A mean of another time would rise and fall with their windows. */
const meanMs = 10_000;

/** A longer time has one rate, which does not show when a change took effect. */
export const isLong = ({ fromMs, toMs }: ReadTime): boolean => toMs - fromMs > meanMs;

export function ratePoints(times: readonly ReadTime[]): readonly RatePoint[] {
  return times.flatMap((time, index) => {
    if (isLong(time)) {
      return { atMs: time.toMs, weights: time.isLost ? null : new Map([[index, perSecond(time)]]) };
    }
    const first = Math.floor(time.fromMs / gridMs) + 1;
    const last = Math.floor(time.toMs / gridMs);
    return Array.from({ length: Math.max(0, last - first + 1) }, (_, step) => {
      const atMs = (first + step) * gridMs;
      return { atMs, weights: weightsAt(atMs, index, times) };
    });
  });
}

const perSecond = ({ seconds }: ReadTime): number => (seconds === 0 ? 0 : 1 / seconds);

/** The weights of the mean up to an instant, which is in the read time of the index. */
function weightsAt(atMs: number, index: number, times: readonly ReadTime[]): RatePoint["weights"] {
  const overlaps = new Map<number, number>();
  let sumMs = 0;
  for (let each = index; each >= 0; each--) {
    const time = times[each];
    if (time === undefined || time.toMs <= atMs - meanMs) break;
    if (time.isLost) return null;
    const ownMs = Math.min(atMs, time.toMs) - Math.max(atMs - meanMs, time.fromMs);
    overlaps.set(each, ownMs * perSecond(time));
    sumMs += ownMs;
  }
  return new Map([...overlaps].map(([each, overlap]) => [each, overlap / sumMs]));
}
