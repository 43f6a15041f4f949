/** Reads the denials of the last 24 hours, and the share of one key in them. */
import type { Policy, Statistics, StatisticsPoint, TopKeys } from "../api/answers.ts";
import { queryText, read } from "../api/client.ts";
import { now } from "../clock.ts";
import { denialKind, type DenialKind, denialsOf } from "./denials.ts";

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
