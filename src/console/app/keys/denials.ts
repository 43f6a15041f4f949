/** The decisions of a policy in the statistics: its denials of the last 24 hours, and the share of one key in them. */
import type { PolicyMode, PolicyView, StatisticsView, StatisticsPointView, TopKeyList } from "../../../admin/wire.ts";
import { queryText, read } from "../api/client.ts";
import { now } from "../clock.ts";
import { numberText, percentText } from "../parts/text.ts";

export interface Decisions {
  readonly all: number;
  /**
   * The denials that the list of most denied keys counts. As in the overview, decisions by `onError` are not counted.
   */
  readonly denied: number;
  /** Requests that a dry run would have denied. The list of most denied keys counts them, too. */
  readonly wouldBeDenied: number;
}

export function decisionsOf(
  { points }: Pick<StatisticsView, "points">,
  policy: string,
  fromMs = Number.NEGATIVE_INFINITY,
): Decisions {
  const sum = { all: 0, denied: 0, wouldBeDenied: 0 };
  for (const { outcomes } of points.filter((each) => each.policy === policy && Date.parse(each.at) >= fromMs)) {
    const { denied = 0, banned = 0, blocked = 0, "dry-run-denied": wouldBeDenied = 0 } = outcomes;
    sum.all += Object.values(outcomes).reduce((all, count) => all + count, 0);
    sum.denied += denied + banned + blocked;
    sum.wouldBeDenied += wouldBeDenied;
  }
  return sum;
}

/** The policy with the most denials; null when none has denied anything, nor would have. */
export function mostDenying(
  points: readonly StatisticsPointView[],
  policies: readonly Pick<PolicyView, "name">[],
): string | null {
  const counted = policies.map(({ name }) => {
    const { denied, wouldBeDenied } = decisionsOf({ points }, name);
    return { name, count: denied + wouldBeDenied };
  });
  const [most] = counted.toSorted((one, other) => other.count - one.count);
  return most === undefined || most.count === 0 ? null : most.name;
}

/**
 * The words for the lists of denied keys, which do not separate denials from those of a dry run. `column` is the title
 * of the counts.
 */
export const denialTexts = {
  denied: { noun: "denials", column: "Denied", title: "Top denied keys" },
  "would be denied": {
    noun: "would-be denials",
    column: "Would be denied",
    title: "Top keys that would be denied",
  },
  "denied or would be denied": {
    noun: "denials and would-be denials",
    column: "Denied, or would be",
    title: "Top denied and would-be denied keys",
  },
} as const;

/**
 * Whether the list of most denied keys counts denials or would-be denials. Before the first of either, the mode
 * decides.
 */
export const denialKind = (
  points: readonly StatisticsPointView[],
  { name, mode }: Pick<PolicyView, "name" | "mode">,
): DenialKind => kindOfDenials(decisionsOf({ points }, name), mode.value);

export type DenialKind = keyof typeof denialTexts;

export function kindOfDenials(
  { denied, wouldBeDenied }: Omit<Decisions, "all">,
  mode: PolicyMode | undefined,
): DenialKind {
  if (denied > 0 && wouldBeDenied > 0) return "denied or would be denied";
  if (denied + wouldBeDenied === 0) return mode === "dry-run" ? "would be denied" : "denied";
  return denied > 0 ? "denied" : "would be denied";
}

const dayMs = 86_400_000;

/** The statistics of the same 24 hours that the lists of most denied keys cover. */
export async function readDenials(abort?: AbortSignal, policy?: string): Promise<readonly StatisticsPointView[]> {
  const from = new Date(now() - dayMs).toISOString();
  const query = queryText({ policy, from, step: "1h" });
  return (await read<StatisticsView>(`stats${query}`, abort)).points;
}

/** Such as "12 % of its denials in the last 24 hours (12 of 100)"; null for a key that is not among the most denied ones. */
export async function denialShareText(policy: PolicyView, id: string, abort: AbortSignal): Promise<string | null> {
  const { name } = policy;
  const [{ keys }, points] = await Promise.all([
    read<TopKeyList>(`top${queryText({ policy: name, by: "denied", limit: 200 })}`, abort),
    readDenials(abort, name),
  ]);
  const count = keys.find((key) => key.id === id)?.count;
  if (count === undefined) return null;
  const { denied, wouldBeDenied } = decisionsOf({ points }, name);
  const all = Math.max(count, denied + wouldBeDenied);
  const share = `${percentText(count, all)} of its ${denialTexts[denialKind(points, policy)].noun}`;
  return `${share} in the last 24 hours (${numberText(count)} of ${numberText(all)})`;
}
