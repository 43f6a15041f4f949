/** One policy: all parts with their sources, and the rules behind them. */
import type { ComponentChildren } from "preact";
import type { Policy, Rule } from "../api/answers.ts";
import { authorText, ruleText } from "../parts/rule-text.ts";
import { numberText } from "../parts/text.ts";
import { hrefOf } from "../shell/route.ts";
import { may } from "../shell/session.ts";
import { LastDay } from "../what-if/of-dialogs.tsx";
import { dryRunOf } from "../what-if/ways.ts";
import { type EntriesKind, entriesOf } from "./entries-dialog.tsx";
import { limitLine, limitsOfRequests, linesOf } from "./texts.ts";
import { End, entryKinds, KeyParts, ModeSwitch, OpenPolicyDialog, PolicyLinks, Refused, Source } from "./parts.tsx";
import { ModeBadge } from "../parts/policies.tsx";
import { useContext } from "preact/hooks";

interface PolicyPageProps {
  readonly policy: Policy;
}

export function PolicyPage({ policy }: PolicyPageProps) {
  const { name, mode } = policy;
  return (
    <section>
      <p>
        <a href={hrefOf("policies")}>All policies</a>
      </p>
      <header class="row">
        <h1>Policy {name}</h1>
        <ModeBadge mode={mode.value} />
        <PolicyLinks name={name} />
      </header>
      <KeyParts policy={policy} />
      <Refused policy={policy} />
      <div class="grid">
        <Part title="Mode">
          <ModeSwitch policy={policy} />
          <RulesBehind policy={policy} kind="mode" />
        </Part>
        <LimitsPart policy={policy} />
        {entryKinds.map((kind) => (
          <EntriesOfKind key={kind} {...{ policy, kind }} />
        ))}
      </div>
      {mode.value === "dry-run" && (
        <Part title="Dry run">
          <LastDay change={dryRunOf(policy)} />
        </Part>
      )}
    </section>
  );
}

const Part = ({ title, children }: { readonly title: string; readonly children: ComponentChildren }) => (
  <section class="card part" aria-label={title}>
    <h2>{title}</h2>
    {children}
  </section>
);

function LimitsPart({ policy }: PolicyPageProps) {
  const open = useContext(OpenPolicyDialog);
  const { name, limits } = policy;
  return (
    <Part title="Limits">
      <ul class="plain">
        {limits.value.map((limit) => (
          <li key={limit.name}>
            <strong>{limitLine(limit)}</strong> <code class="dim">{limit.name}</code>
          </li>
        ))}
        {limits.value.length === 0 && <li>{limitsOfRequests}</li>}
      </ul>
      <p>
        <Source policy={policy} of={limits} />
      </p>
      {may("write") && (
        <p class="row">
          <button type="button" onClick={() => open({ kind: "limits", policy: name })}>
            Change the limits
          </button>
          {limits.source === "rule" && (
            <button type="button" class="quiet" onClick={() => open({ kind: "configured-limits", policy: name })}>
              Use the configured limits again
            </button>
          )}
        </p>
      )}
      <RulesBehind policy={policy} kind="limits" />
    </Part>
  );
}

const titles: Readonly<Record<EntriesKind, string>> = {
  deny: "Deny entries",
  allow: "Allow entries",
  overrides: "Overrides",
};

function EntriesOfKind({ policy, kind }: PolicyPageProps & { readonly kind: EntriesKind }) {
  const open = useContext(OpenPolicyDialog);
  const { name } = policy;
  const configured = policy[kind].find(({ source }) => source === "configuration");
  return (
    <Part title={titles[kind]}>
      {policy[kind].length === 0 && <p class="dim">There are no entries.</p>}
      <RulesBehind {...{ policy, kind }} />
      {configured !== undefined && (
        <p>
          {numberText(configured.count)} in the configuration.{" "}
          <span class="dim">They may be secrets, so only their number is shown.</span>
        </p>
      )}
      {may("write") && (
        <button type="button" onClick={() => open({ kind: "entries", policy: name, list: kind, ruleId: null })}>
          Add {kind === "overrides" ? "overrides" : `${kind} entries`}
        </button>
      )}
    </Part>
  );
}

/** The rules of a kind, the newest first. Only the newest rule for the mode or the limits has an effect. */
function RulesBehind({ policy, kind }: PolicyPageProps & { readonly kind: "mode" | "limits" | EntriesKind }) {
  const rules = policy.rules.filter((rule) => rule.kind === kind);
  if (rules.length === 0) return null;
  const inEffect = kind === "mode" || kind === "limits" ? policy[kind].rule : undefined;
  return (
    <ul class="plain rules">
      {rules.map((rule) => {
        const isRefused = policy.refused.some((refused) => refused.rule === rule.id);
        const isShadowed = inEffect !== undefined && inEffect !== rule.id;
        return (
          <li key={rule.id}>
            <RuleBehind {...{ policy, rule }} isOnly={rules.length === 1} />
            {isRefused && <p class="warning">This rule has no effect: see above.</p>}
            {!isRefused && isShadowed && <p class="warning">This rule has no effect while a newer one lasts.</p>}
          </li>
        );
      })}
    </ul>
  );
}

interface RuleBehindProps extends PolicyPageProps {
  readonly rule: Rule;
  /** Whether the policy has no other rule of the kind. */
  readonly isOnly: boolean;
}

/** The only rule for the mode or the limits is removed by using the configuration again. */
function RuleBehind({ policy, rule, isOnly }: RuleBehindProps) {
  const open = useContext(OpenPolicyDialog);
  const { id, kind, note } = rule;
  const { name } = policy;
  const list = kind === "allow" || kind === "deny" || kind === "overrides" ? kind : null;
  const dialog = { policy: name, ruleId: id };
  return (
    <>
      {list === null ? (
        <p>
          <strong>{ruleText(rule)}</strong>
        </p>
      ) : (
        <pre class="entries">{linesOf(entriesOf(rule))}</pre>
      )}
      <p class="dim">
        {authorText(rule)}, <End of={rule} />
        {note !== null && <> – {note}</>} <a href={hrefOf("audit", { rule: id })}>History</a>
      </p>
      {may("write") && (list !== null || !isOnly) && (
        <p class="row">
          {list !== null && (
            <button
              type="button"
              aria-label={`Change: ${ruleText(rule)}`}
              onClick={() => open({ kind: "entries", list, ...dialog })}
            >
              Change
            </button>
          )}
          <button
            type="button"
            aria-label={`Remove: ${ruleText(rule)}`}
            onClick={() => open({ kind: "remove", ...dialog })}
          >
            Remove
          </button>
        </p>
      )}
    </>
  );
}
