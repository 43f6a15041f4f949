/** Whether a load was let in exactly: in every window each unit of the limit once. */

export interface Load {
  readonly limit: number;
  readonly windowMs: number;
  readonly elapsedMs: number;
  /** For each `remaining` that an allowed answer told, how many told it; index 0 is the last unit of a window. */
  readonly told: readonly number[];
  readonly served: number;
  readonly refused: number;
  readonly errors: number;
}

export interface Verdict {
  readonly windows: number;
  readonly allowed: number;
  /** What is wrong; none when exactly the limit was let in per window. */
  readonly faults: readonly string[];
}

export function judge(load: Load): Verdict {
  const units = Array.from({ length: load.limit }, (_, remaining) => load.told[remaining] ?? 0);
  const allowed = load.told.reduce((sum, count) => sum + count, 0);
  // The first request of a window leaves one less than the limit: there are as many windows as were told that.
  const windows = units.at(-1) ?? 0;
  const mostWindows = Math.floor(load.elapsedMs / load.windowMs) + 1;
  const isWhole = units.every((count) => count === windows);
  const faults = [
    ...(isWhole ? [] : [`not every window let in exactly ${load.limit}`]),
    ...(windows >= 1 ? [] : ["no window was opened"]),
    ...(windows <= mostWindows ? [] : [`${windows} windows in the time of ${mostWindows}`]),
    ...(load.told.length <= load.limit ? [] : ["more was said to remain than the limit allows"]),
    ...(load.served === allowed
      ? []
      : [`${load.served} requests reached the origin, ${allowed} were allowed`]),
    ...(load.refused > 0 ? [] : ["nothing was refused: the load did not reach the limit"]),
    ...(load.errors === 0 ? [] : [`${load.errors} requests failed`]),
  ];
  return { windows, allowed, faults };
}
