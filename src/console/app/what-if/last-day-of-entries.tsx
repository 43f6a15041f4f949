/** The last 24 hours of the key that a new entry matches. Samples cannot show the effect of other entries. */
import { useEffect, useState } from "preact/hooks";
import type { AuditedRule, Explanation, Policy } from "../api/answers.ts";
import { call } from "../api/client.ts";
import { addedEntry, onlyKeyOf } from "./entry-key.ts";
import { modeObstacle } from "./key-ways.ts";
import { LastDay } from "./lazy.tsx";
import { type Change, listObstacle, underLimits, underRule } from "./ways.ts";

interface MatchProps {
  readonly policy: Policy;
  readonly kind: "allow" | "deny" | "overrides";
  readonly before: readonly unknown[];
  readonly after: readonly unknown[];
}

/** Long enough for the next key of somebody who types. */
const pauseMs = 300;

export function LastDayOfEntries({ policy, kind, before, after }: MatchProps) {
  const [change, setChange] = useState<Change | null>(null);
  const entry = addedEntry(before, after);
  const key = entry === null ? null : onlyKeyOf(entry, policy.key);
  useEffect(() => {
    if (key === null) return undefined;
    const abort = new AbortController();
    const timer = setTimeout(() => {
      const body = { policy: policy.name, key };
      call<Explanation>("POST", "keys/explain", { body, signal: abort.signal }).then(
        ({ value }) => setChange(changeOfEntry(policy, kind, entry, value)),
        () => null,
      );
    }, pauseMs);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
    // oxlint-disable-next-line react/exhaustive-deps -- entries are the same if their texts are
  }, [policy.name, policy.version, kind, JSON.stringify(entry)]);
  const obstacle = key === null ? obstacleText(after) : modeObstacle(policy);
  return <LastDay change={change} {...(obstacle !== undefined && { obstacle })} />;
}

const obstacleText = (after: readonly unknown[]): string =>
  after.length === 0
    ? "For an entry that is one key, the effect on its requests of the last 24 hours is shown here."
    : `${listObstacle} They can for a single new entry that is one key.`;

function changeOfEntry(
  policy: Policy,
  kind: MatchProps["kind"],
  entry: unknown,
  { id, limitsInEffect }: Explanation,
): Change {
  const { limits = "", strategy }: Partial<Pick<AuditedRule, "limits" | "strategy">> =
    kind === "overrides" ? { ...Object(entry) } : {};
  const rule = { limits, ...(strategy !== undefined && { strategy }) };
  return {
    policy: policy.name,
    key: id,
    ways: [
      { title: "Now", decider: underLimits(limitsInEffect) },
      { title: "Then", decider: underRule({ ...rule, kind }, policy) },
    ],
  };
}
