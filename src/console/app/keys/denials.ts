/** The denials of the last 24 hours by policy, and the share of one key in them. */
import type { Policy, Statistics, StatisticsPoint, TopKeys } from "../api/answers.ts";
import { queryText, read } from "../api/client.ts";
import { now } from "../clock.ts";

/** The outcomes that the list of most denied keys counts, besides those of a dry run. */
const denials = ["denied", "banned", "blocked"] as const;

interface Denials {
  readonly denied: number;
  readonly wouldBeDenied: number;
}

function denialsOf(points: readonly StatisticsPoint[], policy: string): Denials {
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

const dayMs = 86_400_000;

/** The denials of the hours that lists of most denied keys cover. */
export async function readDenials(abort?: AbortSignal, policy?: string): Promise<readonly StatisticsPoint[]> {
  const from = new Date(now() - dayMs).toISOString();
  const query = queryText({ policy, from, step: "1h" });
  return (await read<Statistics>(`stats${query}`, abort)).points;
}

const nouns: Readonly<Record<DenialKind, string>> = {
  denied: "denials",
  "would be denied": "would-be denials",
  "denied or would be denied": "denials and would-be denials",
};

export interface DenialShare {
  readonly ofKey: number;
  readonly ofPolicy: number;
  /** Such as "denials". */
  readonly what: string;
}

/** The denials of a key in the last 24 hours; null for a key that is not among the most denied ones. */
export async function denialShare(policy: Policy, id: string): Promise<DenialShare | null> {
  const { name } = policy;
  const [top, points] = await Promise.all([
    read<TopKeys>(`top${queryText({ policy: name, by: "denied", limit: 200 })}`),
    readDenials(undefined, name),
  ]);
  const key = top.keys.find((each) => each.id === id);
  if (key === undefined) return null;
  const { denied, wouldBeDenied } = denialsOf(points, name);
  const ofPolicy = Math.max(key.count, denied + wouldBeDenied);
  return { ofKey: key.count, ofPolicy, what: nouns[denialKind(points, policy)] };
}
