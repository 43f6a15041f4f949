/** Parts of a policy that its card, its page and its dialogs show: mode, source, and the numbers of the last hour. */
import type { ReadonlySignal } from "@preact/signals";
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { EntriesPart, Mode, Policy, Rule, Statistics } from "../api/answers.ts";
import { CountDown } from "../parts/count-down.tsx";
import { ruleSource, ruleText } from "../parts/rule-text.ts";
import { hrefOf } from "../shell/route.ts";
import { may } from "../shell/session.ts";
import type { OpenDialog } from "./dialogs.tsx";
import { decisionsOf } from "../keys/denials.ts";
import { modeDecisionsText, requestsText } from "./texts.ts";
import { ModeBadge } from "../parts/policies.tsx";

type SourceOf = Pick<EntriesPart, "source" | "rule">;

const ruleOf = ({ rules }: Policy, { rule }: SourceOf): Rule | undefined => rules.find(({ id }) => id === rule);

/** For example "from a rule by ops, until 22 Nov 2026, 18:30:00". */
export function sourceText(policy: Policy, sourced: SourceOf): string {
  const rule = ruleOf(policy, sourced);
  return rule === undefined ? "from the configuration" : ruleSource(rule);
}

/** The rules that a return to the configuration removes. */
export const removedRules = ({ rules }: Policy, part: "mode" | "limits"): readonly string[] =>
  rules.filter(({ kind }) => kind === part).map((rule) => `This removes the rule by ${rule.actor}: ${ruleText(rule)}.`);

export function Source({ policy, of }: { readonly policy: Policy; readonly of: SourceOf }) {
  const rule = ruleOf(policy, of);
  if (rule === undefined) return <span class="dim">from the configuration</span>;
  return (
    <span class="dim">
      from <a href={hrefOf("audit", { rule: rule.id })}>a rule</a> by {rule.actor}, <End of={rule} />
    </span>
  );
}

/** When a rule ends. */
export const End = ({ of: { expiresAt } }: { readonly of: Pick<Rule, "expiresAt"> }) =>
  expiresAt === null ? <>without an end</> : <CountDown until={expiresAt} />;

const modes: readonly Mode[] = ["enforce", "dry-run", "off"];

export function ModeSwitch({ policy }: { readonly policy: Policy }) {
  const open = useContext(OpenPolicyDialog);
  const { name, mode } = policy;
  return (
    <div class="mode">
      <div class="row">
        {may("write") ? (
          <div class="row switch" role="group" aria-label={`Mode of policy ${name}`}>
            {modes.map((each) => (
              <button
                key={each}
                type="button"
                aria-pressed={each === mode.value}
                disabled={each === mode.value && mode.source === "configuration"}
                onClick={() => open({ kind: "mode", policy: name, mode: each })}
              >
                {each}
              </button>
            ))}
          </div>
        ) : (
          <ModeBadge mode={mode.value} />
        )}
        <Source policy={policy} of={mode} />
        {mode.source === "rule" && <span class="dim">Configured mode: {policy.configured.mode}</span>}
      </div>
      <HourOfMode policy={policy} />
    </div>
  );
}

/** Opens a dialog of a policy. */
export const OpenPolicyDialog = createContext<(dialog: OpenDialog) => void>(() => {});

/** Null before the first answer. */
export const LastHour = createContext<ReadonlySignal<Statistics | null> | null>(null);

function useHour(textOf: (statistics: Statistics) => string): string {
  const statistics = useContext(LastHour)?.value ?? null;
  return statistics === null ? "…" : textOf(statistics);
}

/** The requests that a change of a policy concerns. */
export function Concerned({ policy }: { readonly policy: string }) {
  const text = useHour((statistics) => requestsText(decisionsOf(statistics, policy)));
  return (
    <>
      Policy {policy}: {text}
    </>
  );
}

/** How many requests were denied, or would have been. */
function HourOfMode({ policy }: { readonly policy: Policy }) {
  return <p class="hour">{useHour((statistics) => modeDecisionsText(statistics, policy))}</p>;
}

export const entryKinds = ["deny", "allow", "overrides"] as const;

export const PolicyLinks = ({ name }: { readonly name: string }) => (
  <nav class="row links" aria-label={`Pages of policy ${name}`}>
    <a href={hrefOf("keys", { policy: name })}>Keys</a>
    <a href={hrefOf("advisor", { policy: name })}>Advisor</a>
    <a href={hrefOf("", { policy: name })}>Overview</a>
    <a href={hrefOf("audit", { policy: name })}>Audit</a>
  </nav>
);

export const KeyParts = ({ policy: { key } }: { readonly policy: Policy }) => (
  <p>
    Key: <code>{key.join(", ")}</code>
  </p>
);

/** Rules that the configuration no longer accepts, which have no effect. */
export function Refused({ policy: { refused, rules } }: { readonly policy: Policy }) {
  if (refused.length === 0) return null;
  return (
    <div class="warning-list">
      <strong class="warning">
        {refused.length === 1 ? "A rule has" : `${refused.length} rules have`} no effect, because the configuration does
        not accept {refused.length === 1 ? "it" : "them"}:
      </strong>
      <ul>
        {refused.map(({ rule, reason }) => {
          const { kind = "", actor = "" } = rules.find(({ id }) => id === rule) ?? {};
          return (
            <li key={rule}>
              {kind === "" ? "The rules" : `The ${kind} rule by ${actor}`}: {reason}
            </li>
          );
        })}
      </ul>
    </div>
  );
}
