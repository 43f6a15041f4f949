/** The data of a plot, and the index of the value that it draws at an instant. */

export interface PlotSeries {
  readonly label: string;
  /** The name of a CSS variable. */
  readonly color: `--${string}`;
  /** Null where nothing is known. */
  readonly values: readonly (number | null)[];
}

export interface TimeRange {
  readonly fromMs: number;
  readonly toMs: number;
}

export interface PlotData {
  /** The ends of the time axis, in milliseconds since 1970. */
  readonly fromMs: number;
  readonly toMs: number;
  readonly times: readonly number[];
  /**
   * Each value is that of a step of this length, which begins at its time; the last step is not over. Null for values of the
   * time since the one before.
   */
  readonly stepMs: number | null;
  /** Times with one value, which is a mean, or none. They are pale. */
  readonly longSteps: readonly TimeRange[];
  readonly series: readonly PlotSeries[];
}

/** The index of the value that is drawn at an instant; null when there are no values. */
export function indexAt({ times, stepMs }: Pick<PlotData, "times" | "stepMs">, atMs: number): number | null {
  const last = times.length - 1;
  if (last < 0) return null;
  if (stepMs !== null)
    return Math.max(
      0,
      times.findLastIndex((startMs) => startMs <= atMs),
    );
  const index = times.findIndex((endMs) => endMs >= atMs);
  return index === -1 ? last : index;
}
