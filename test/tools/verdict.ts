/** Checks that exactly the limit was admitted: in every window, each unit of the limit once. */

export interface MeasuredLoad {
  readonly limit: number;
  readonly windowMs: number;
  readonly elapsedMs: number;
  /** The number of allowed responses for each value of `remaining`. Index 0 is the last unit of a window. */
  readonly remainingCounts: readonly number[];
  readonly served: number;
  readonly denied: number;
  readonly errors: number;
}

export interface Verdict {
  readonly windows: number;
  readonly allowed: number;
  /** One line for each fault; empty when exactly the limit was admitted per window. */
  readonly faults: readonly string[];
}

export function judge(load: MeasuredLoad): Verdict {
  const units = Array.from({ length: load.limit }, (_, remaining) => load.remainingCounts[remaining] ?? 0);
  const allowed = load.remainingCounts.reduce((sum, count) => sum + count, 0);
  // In the first response of a window, `remaining` is one below the limit, so the number of such responses is the
  // number of windows.
  const windows = units.at(-1) ?? 0;
  const mostWindows = Math.floor(load.elapsedMs / load.windowMs) + 1;
  const isWhole = units.every((count) => count === windows);
  const faults = [
    ...(isWhole ? [] : [`not every window admitted exactly ${load.limit}`]),
    ...(windows >= 1 ? [] : ["no window was opened"]),
    ...(windows <= mostWindows ? [] : [`${windows} windows opened, at most ${mostWindows} fit into the time`]),
    ...(load.remainingCounts.length <= load.limit ? [] : ["a response reported more remaining than the limit"]),
    ...(load.served === allowed ? [] : [`${load.served} requests reached the origin, ${allowed} were allowed`]),
    ...(load.denied > 0 ? [] : ["no request was denied, so the load did not reach the limit"]),
    ...(load.errors === 0 ? [] : [`${load.errors} requests failed`]),
  ];
  return { windows, allowed, faults };
}
