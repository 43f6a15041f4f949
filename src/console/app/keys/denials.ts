/** How many requests policies denied in the last 24 hours, or would have denied in a dry run. */
import type { Policy, StatisticsPoint } from "../api/answers.ts";

/** The outcomes that the list of most denied keys counts, besides those of a dry run. */
const denials = ["denied", "banned", "blocked"] as const;

export interface Denials {
  readonly denied: number;
  readonly wouldBeDenied: number;
}

export function denialsOf(points: readonly StatisticsPoint[], policy: string): Denials {
  const own = points.filter((point) => point.policy === policy).map(({ outcomes }) => outcomes);
  const sum = (names: readonly ((typeof denials)[number] | "dry-run-denied")[]): number =>
    own.reduce((all, counts) => all + names.reduce((n, name) => n + (counts[name] ?? 0), 0), 0);
  return { denied: sum(denials), wouldBeDenied: sum(["dry-run-denied"]) };
}

/** The policy with the most denials; null when none has denied anything, nor would have. */
export function mostDenying(
  points: readonly StatisticsPoint[],
  policies: readonly Pick<Policy, "name">[],
): string | null {
  const counted = policies.map(({ name }) => {
    const { denied, wouldBeDenied } = denialsOf(points, name);
    return { name, count: denied + wouldBeDenied };
  });
  const [most] = counted.toSorted((one, other) => other.count - one.count);
  return most === undefined || most.count === 0 ? null : most.name;
}

/** The lists do not say which of the denials of a key are those of a dry run. */
export type DenialKind = "denied" | "would be denied" | "denied or would be denied";

/** The title of the column with the counts of such a list. */
export const denialColumns: Readonly<Record<DenialKind, string>> = {
  denied: "Denied",
  "would be denied": "Would be denied",
  "denied or would be denied": "Denied, or would be",
};

/** The denials that a list of most denied keys counts. Before the first denial, its mode says which there will be. */
export function denialKind(
  points: readonly StatisticsPoint[],
  { name, mode }: Pick<Policy, "name" | "mode">,
): DenialKind {
  const { denied, wouldBeDenied } = denialsOf(points, name);
  if (denied > 0 && wouldBeDenied > 0) return "denied or would be denied";
  if (denied + wouldBeDenied === 0) return mode.value === "dry-run" ? "would be denied" : "denied";
  return denied > 0 ? "denied" : "would be denied";
}
