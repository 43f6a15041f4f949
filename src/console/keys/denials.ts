/** How many requests a policy denied, and the share of one key in them. */
import type { Statistics, StatisticsPoint, TopKeys } from "../api/answers.ts";
import { queryText, read } from "../api/client.ts";
import { now } from "../clock.ts";

export const dayMs = 86_400_000;

/** The outcomes that the list of most denied keys counts. */
const denials = ["denied", "banned", "blocked", "dry-run-denied"] as const;

export const denialsOf = (points: readonly StatisticsPoint[], policy: string): number =>
  points
    .filter((point) => point.policy === policy)
    .flatMap(({ outcomes }) => denials.map((outcome) => outcomes[outcome] ?? 0))
    .reduce((sum, count) => sum + count, 0);

export interface DenialShare {
  readonly ofKey: number;
  readonly ofPolicy: number;
}

/** The denials of a key in the last 24 hours; null for a key that is not among the most denied ones. */
export async function denialShare(policy: string, id: string): Promise<DenialShare | null> {
  const from = new Date(now() - dayMs).toISOString();
  const [top, { points }] = await Promise.all([
    read<TopKeys>(`top${queryText({ policy, by: "denied", limit: 200 })}`),
    read<Statistics>(`stats${queryText({ policy, from, step: "1h" })}`),
  ]);
  const key = top.keys.find((each) => each.id === id);
  if (key === undefined) return null;
  return { ofKey: key.count, ofPolicy: Math.max(key.count, denialsOf(points, policy)) };
}
