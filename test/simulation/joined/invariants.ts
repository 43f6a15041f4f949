/** The invariants of joined calls. */
import type { Checks } from "../control/checks.ts";

export const joinedInvariants = [
  "decisions: those of an object that decides the same checks one by one",
  "decisions: those of a naive log that decides the checks one by one",
  "decisions: a key admits no more in any window than the strategy's bound",
  "charges: an admitted request is charged exactly once",
  "charges: a denied request is charged nothing",
  "charges: a request that its failure mode answers is charged at most once",
  "charges: a late reply to a refused request is refunded",
  "charges: a request is not sent after its answer",
  "waits: a request is answered by its deadline",
  "waits: a check is sent within the longest wait",
  "waits: without faults, an object decides every request",
  "ends: no timer of a request is left",
  "ends: every request has an answer",
] as const;

export type JoinedInvariant = (typeof joinedInvariants)[number];

export type JoinedChecksOfRun = Checks<JoinedInvariant>;
