/** The section "The last 24 hours" of dialogs. Its code is loaded with the dialogs, so that no view becomes larger. */
import { useState } from "preact/hooks";
import type { LastDayProps } from "./last-day.tsx";
import type { AuditedRule, Explanation, PolicyView } from "../../../admin/wire.ts";
import { explain } from "../keys/known-keys.ts";
import { useRead } from "../api/poll.ts";
import { type Change, changeOfRules, listObstacle, modeObstacle, rulesAfter, underLimits, underRule } from "./ways.ts";
import { entryText } from "../parts/rule-text.ts";
import { lazy } from "../parts/lazy.ts";
import { Select } from "../parts/fields.tsx";
import type { ChangedEntries, EntriesKind } from "../policies/entries-dialog.tsx";
import { readPolicy, type RuleChange, ruleIn } from "../api/rules.ts";

const useSection = lazy(async () => (await import("./last-day.tsx")).LoadedLastDay);

export function LastDay(props: LastDayProps) {
  const { code: Section, hasFailed } = useSection();
  if (Section !== null) return <Section {...props} />;
  // The dialog works without this section.
  return <p class="hint">{hasFailed ? "The page cannot load the last 24 hours." : "…"}</p>;
}

interface LastDayOfEntriesProps extends ChangedEntries {
  readonly policy: PolicyView;
}

const pauseMs = 300;

export function LastDayOfEntries({ policy, kind, before, after }: LastDayOfEntriesProps) {
  const entry = addedEntry(before, after);
  const key = entry === null ? null : onlyKeyOf(entry, policy.key);
  const readChange = async (signal: AbortSignal): Promise<Change> => {
    return changeOfEntry(policy, kind, entry, await explain({ policy: policy.name, key }, signal));
  };
  const change = useRead(
    key === null ? null : readChange,
    // Entries with equal JSON are the same entry.
    [policy.name, policy.version, kind, JSON.stringify(entry)],
    { firstMs: pauseMs, laterMs: pauseMs },
  );
  const obstacle = key === null ? obstacleText(after) : modeObstacle(policy);
  return <LastDay change={change ?? undefined} obstacle={obstacle} />;
}

const obstacleText = (after: readonly unknown[]): string =>
  after.length === 0
    ? "For an entry that is one key, the effect on its requests of the last 24 hours is shown here."
    : `${listObstacle} They can for a single new entry that is one key.`;

function changeOfEntry(
  policy: PolicyView,
  kind: EntriesKind,
  entry: unknown,
  { id, limitsInEffect }: Explanation,
): Change {
  const written: Partial<Pick<AuditedRule, "limits" | "strategy">> = kind === "overrides" ? { ...Object(entry) } : {};
  return {
    policy: policy.name,
    key: id,
    ways: [
      { title: "Now", decider: underLimits(limitsInEffect) },
      { title: "Then", decider: underRule({ ...written, kind }, policy) },
    ],
  };
}

interface StepsProps {
  readonly steps: readonly RuleChange[];
}

/** The policy whose limits or mode change; null for a rule of a key and for lists of entries. */
function policyOf(step: RuleChange): string | null {
  const rule = ruleIn(step);
  const changesLimits = rule?.keyId === null && (rule.kind === "limits" || rule.kind === "mode");
  return changesLimits ? rule.policy : null;
}

/** Shows one policy at a time. */
export function LastDayOfSteps({ steps }: StepsProps) {
  const [chosen, setChosen] = useState("");
  const policies = steps.map(policyOf);
  const names = [...new Set(policies)].filter((policy) => policy !== null);
  const name = names.includes(chosen) ? chosen : names[0];
  if (name === undefined) return null;
  return (
    <>
      {names.length > 1 && (
        <p class="row">
          <Select label="Effect on policy" value={name} options={names} onChange={setChosen} />
        </p>
      )}
      <OfOnePolicy key={name} name={name} steps={steps.filter((step) => policyOf(step) === name)} />
      {policies.includes(null) && (
        <p class="hint">The last 24 hours do not include what changes for single keys and lists of entries.</p>
      )}
    </>
  );
}

function OfOnePolicy({ name, steps }: StepsProps & { readonly name: string }) {
  const policy = useRead((abort) => readPolicy(name, abort), [name]);
  return policy && <LastDay change={changeOfRules(policy, rulesAfter(policy, steps))} />;
}

/** The entry that the change adds; null if it adds several, or removes any. */
export function addedEntry(before: readonly unknown[], after: readonly unknown[]): unknown {
  const old = new Set(before.map(entryText));
  const added = after.filter((entry) => !old.has(entryText(entry)));
  return added.length === 1 && after.length === old.size + 1 ? added[0] : null;
}

const network = /^[\d.a-f:]+\/\d{1,3}$/i;
const address = /^(?:\d{1,3}(?:\.\d{1,3}){3}|[\da-f]*(?::[\da-f]*){2,7})$/i;

/**
 * The parts of the only key that an entry matches. Null if it can match several keys: a network, a condition, or an
 * address that is not itself the key.
 */
export function onlyKeyOf(entry: unknown, parts: readonly string[]): readonly string[] | null {
  const isOverride = typeof entry === "object" && entry !== null && !Array.isArray(entry);
  const written: unknown = isOverride ? Reflect.get(entry, "key") : entry;
  const key = Array.isArray(written) ? written : [written];
  if (key.length !== parts.length || !key.every((part) => typeof part === "string")) return null;
  const [only = ""] = key;
  if (key.length > 1) return key;
  if (network.test(only)) return null;
  return address.test(only) && parts[0] !== "ip" ? null : key;
}
