/** Units admitted at one instant. */
export interface Admitted {
  readonly atMs: number;
  readonly units: number;
}

/**
 * The greatest number of units admitted in any span of `spanMs`.
 * @param admitted in ascending order of time
 */
export function mostIn(spanMs: number, admitted: readonly Admitted[]): number {
  let most = 0;
  let sum = 0;
  let first = 0;
  for (const { atMs, units } of admitted) {
    sum += units;
    while (atMs - (admitted[first]?.atMs ?? atMs) >= spanMs) sum -= admitted[first++]?.units ?? 0;
    most = Math.max(most, sum);
  }
  return most;
}
