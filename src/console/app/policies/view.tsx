/** The view "Policies": what is in effect, where it comes from, and changes to it. */
import type { ComponentChildren } from "preact";
import { useContext } from "preact/hooks";
import type { PolicyMode, PolicyView, RuleView } from "../../../admin/wire.ts";
import { CountDown } from "../parts/count-down.tsx";
import { Empty, Reading } from "../parts/notice.tsx";
import { ModeBadge, usePolicies } from "../parts/policies.tsx";
import { authorText, ruleText } from "../parts/rule-text.ts";
import { countOf, numberText } from "../parts/text.ts";
import { hrefOf, route } from "../shell/route.ts";
import { may } from "../shell/session.ts";
import { LastDay } from "../what-if/of-dialogs.tsx";
import { dryRunOf } from "../what-if/ways.ts";
import { WithDialogs } from "./dialogs.tsx";
import { type EntriesKind, entriesOf } from "./entries-dialog.tsx";
import { OpenPolicyDialog, Source, useHour } from "./parts.tsx";
import "./policies.css";
import { limitLine, limitsLine, limitsOfRequests, linesOf, modeDecisionsText } from "./texts.ts";

const entryKinds = ["deny", "allow", "overrides"] as const;

export const PoliciesView = () => (
  <Reading of={usePolicies()} what="the policies">
    {(list) => (
      <WithDialogs policies={list}>
        <Shown list={list} />
      </WithDialogs>
    )}
  </Reading>
);

function Shown({ list }: { readonly list: readonly PolicyView[] }) {
  const name = route.value.query.get("name");
  if (name === null) return <PolicyList list={list} />;
  const policy = list.find((each) => each.name === name);
  if (policy !== undefined) return <PolicyPage policy={policy} />;
  return (
    <section>
      <h1>Policies</h1>
      <Empty>
        The configuration has no policy {name}. See <a href={hrefOf("policies")}>all policies</a>.
      </Empty>
    </section>
  );
}

const PolicyList = ({ list }: { readonly list: readonly PolicyView[] }) => (
  <section>
    <h1>Policies</h1>
    <p class="hint">
      A change reaches all running instances of the Worker within a second while this page is open, otherwise within 5
      seconds.
    </p>
    {list.length === 0 && <Empty>The configuration has no policies.</Empty>}
    <div class="grid">
      {list.map((policy) => (
        <PolicyCard key={policy.name} policy={policy} />
      ))}
    </div>
  </section>
);

interface PolicyProps {
  readonly policy: PolicyView;
}

/** @param children the heading */
const Header = ({ policy, children }: PolicyProps & { readonly children: ComponentChildren }) => (
  <>
    <header class="row">
      {children}
      <ModeBadge mode={policy.mode.value} />
      <nav class="row links" aria-label={`Pages of policy ${policy.name}`}>
        <a href={hrefOf("keys", { policy: policy.name })}>Keys</a>
        <a href={hrefOf("advisor", { policy: policy.name })}>Advisor</a>
        <a href={hrefOf("", { policy: policy.name })}>Overview</a>
        <a href={hrefOf("audit", { policy: policy.name })}>Audit</a>
      </nav>
    </header>
    <p>
      Key: <code>{policy.key.join(", ")}</code>
    </p>
  </>
);

function PolicyCard({ policy }: PolicyProps) {
  const { name, limits } = policy;
  return (
    <article class="card policy" aria-label={`Policy ${name}`}>
      <Header policy={policy}>
        <h2>
          <a href={hrefOf("policies", { name })}>{name}</a>
        </h2>
      </Header>
      <ModeSwitch policy={policy} />
      <dl class="parts">
        <dt>Limits</dt>
        <dd>
          {limitsLine(limits.value) || limitsOfRequests} <Source policy={policy} of={limits} />
        </dd>
        {entryKinds.map((kind) => (
          <EntryCounts key={kind} {...{ policy, kind }} />
        ))}
      </dl>
      <Refused policy={policy} />
    </article>
  );
}

function EntryCounts({ policy, kind }: PolicyProps & { readonly kind: EntriesKind }) {
  const parts = policy[kind];
  return (
    <>
      <dt>{kind}</dt>
      <dd>
        {parts.length === 0 && <span class="dim">no entries</span>}
        {parts.map((part) => (
          <div key={part.rule ?? ""}>
            {countOf(part.count, "entry", "entries")} <Source policy={policy} of={part} />
          </div>
        ))}
      </dd>
    </>
  );
}

const modes: readonly PolicyMode[] = ["enforce", "dry-run", "off"];

function ModeSwitch({ policy }: PolicyProps) {
  const open = useContext(OpenPolicyDialog);
  const decisions = useHour((statistics) => modeDecisionsText(statistics, policy));
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
      <p class="hour">{decisions}</p>
    </div>
  );
}

/** Rules that the configuration no longer accepts, which have no effect. */
function Refused({ policy: { refused, rules } }: PolicyProps) {
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

function PolicyPage({ policy }: PolicyProps) {
  const { name, mode } = policy;
  return (
    <section>
      <p>
        <a href={hrefOf("policies")}>All policies</a>
      </p>
      <Header policy={policy}>
        <h1>Policy {name}</h1>
      </Header>
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

function LimitsPart({ policy }: PolicyProps) {
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

function EntriesOfKind({ policy, kind }: PolicyProps & { readonly kind: EntriesKind }) {
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

/** The rules of one kind, the newest first. For the mode and for the limits, only the newest rule has an effect. */
function RulesBehind({ policy, kind }: PolicyProps & { readonly kind: "mode" | "limits" | EntriesKind }) {
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

interface RuleBehindProps extends PolicyProps {
  readonly rule: RuleView;
  /** Whether the policy has no other rule of the kind. */
  readonly isOnly: boolean;
}

/**
 * One rule of the list. The only rule for the mode or the limits has no button here: the dialog that restores the
 * configuration removes it.
 */
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
        {authorText(rule)}, <CountDown until={rule.expiresAt} endless="without an end" />
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
