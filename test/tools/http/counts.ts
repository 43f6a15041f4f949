/** The requests that a Worker received, and the Worker's calls of objects. */
export interface Counts {
  readonly requests: number;
  readonly calls: number;
}

export const difference = (after: Counts, before: Counts): Counts => ({
  requests: after.requests - before.requests,
  calls: after.calls - before.calls,
});

/** Calls of objects per thousand requests in all these turns; null if these calls were not counted. */
export function callsPerThousand(turns: readonly { readonly counts: Counts | null }[]): number | null {
  const counted = turns.flatMap(({ counts }) => (counts === null ? [] : [counts]));
  const total = counted.reduce(
    (sum, { requests, calls }) => ({ requests: sum.requests + requests, calls: sum.calls + calls }),
    { requests: 0, calls: 0 },
  );
  return total.requests === 0 ? null : (1_000 * total.calls) / total.requests;
}
