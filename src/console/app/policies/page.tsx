/** The page of one policy: what it does, in the order in which a request meets it, and changes to it. */
import type { ComponentChildren } from "preact";
import { useContext, useMemo } from "preact/hooks";
import type {
  AuditEntryView,
  PolicyMode,
  PolicyPart,
  PolicyPartText,
  PolicyView,
  RuleView,
} from "../../../admin/wire.ts";
import { lastHour } from "../overview/spans.ts";
import { TrafficPlot, useRuleChanges } from "../overview/traffic-plot.tsx";
import { shownTraffic } from "../overview/traffic.ts";
import { CountDown } from "../parts/count-down.tsx";
import { ModeBadge } from "../parts/policies.tsx";
import { authorText, ruleText } from "../parts/rule-text.ts";
import { numberText } from "../parts/text.ts";
import { hrefOf } from "../shell/route.ts";
import { may } from "../shell/session.ts";
import { useOwnChangesInView } from "../shell/toasts.tsx";
import { LastDay } from "../what-if/of-dialogs.tsx";
import { dryRunOf } from "../what-if/ways.ts";
import { type EntriesKind, entriesOf } from "./entries-dialog.tsx";
import { OpenPolicyDialog, Source, useHour, useHourTraffic } from "./parts.tsx";
import { linesOf, modeDecisionsText } from "./texts.ts";

interface PolicyProps {
  readonly policy: PolicyView;
}

export function PolicyPage({ policy }: PolicyProps) {
  const { name, mode, rules, description = withoutDescription } = policy;
  const place = useOwnChangesInView(rules);
  return (
    <section ref={place}>
      <p>
        <a href={hrefOf("policies")}>All policies</a>
      </p>
      <header class="row">
        <h1>Policy {name}</h1>
        <ModeBadge mode={mode.value} />
        <nav class="row links" aria-label={`Pages of policy ${name}`}>
          <a href={hrefOf("keys", { policy: name })}>Keys</a>
          <a href={hrefOf("advisor", { policy: name })}>Advisor</a>
          <a href={hrefOf("", { policy: name })}>Overview</a>
          <a href={hrefOf("audit", { policy: name })}>Audit</a>
        </nav>
      </header>
      <Refused policy={policy} />
      <HourPlot policy={policy} />
      <div class="card described">
        {description.map((text) => (
          <Part key={text.part} title={text.title}>
            {text.sentences.map((sentence) => (
              <p key={sentence}>{sentence}</p>
            ))}
            <Controls policy={policy} part={text.part} />
          </Part>
        ))}
      </div>
      {mode.value === "dry-run" && (
        <section class="card" aria-label="Dry run">
          <h2>Dry run</h2>
          <LastDay change={dryRunOf(policy)} />
        </section>
      )}
    </section>
  );
}

/** The requests of the last hour, with the changes of the policy's rules. */
function HourPlot({ policy }: PolicyProps) {
  const { name } = policy;
  const traffic = useHourTraffic();
  const chosen = useMemo(() => (traffic === null ? null : shownTraffic(traffic, name)), [traffic, name]);
  const changes = useRuleChanges(lastHour).value.value ?? noChanges;
  const policies = useMemo(() => [policy], [policy]);
  return (
    <div class="card">
      <TrafficPlot span={lastHour} policy={name} {...{ traffic, chosen, policies, changes }} />
      <p class="hint">Click a time, or drag over a range, to see what was denied then.</p>
    </div>
  );
}

const noChanges: readonly AuditEntryView[] = [];

/** The parts that can be changed, for a Worker of a version that does not describe policies. */
const withoutDescription: readonly PolicyPartText[] = (
  [
    ["mode", "Mode"],
    ["deny", "Deny entries"],
    ["allow", "Allow entries"],
    ["limits", "Limits"],
    ["overrides", "Overrides"],
  ] as const
).map(([part, title]) => ({ part, title, sentences: [] }));

const Part = ({ title, children }: { readonly title: string; readonly children: ComponentChildren }) => (
  <section aria-label={title}>
    <h2>{title}</h2>
    <div>{children}</div>
  </section>
);

/** The rules of a part, and the buttons that change it. */
function Controls({ policy, part }: PolicyProps & { readonly part: PolicyPart }) {
  if (part === "limits") return <LimitsControls policy={policy} />;
  if (part === "deny" || part === "allow" || part === "overrides") {
    return <EntriesControls policy={policy} kind={part} />;
  }
  if (part !== "mode") return null;
  return (
    <>
      <ModeSwitch policy={policy} />
      <RulesBehind policy={policy} kind="mode" />
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

function LimitsControls({ policy }: PolicyProps) {
  const open = useContext(OpenPolicyDialog);
  const { name, limits } = policy;
  return (
    <>
      <Source policy={policy} of={limits} />
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
    </>
  );
}

function EntriesControls({ policy, kind }: PolicyProps & { readonly kind: EntriesKind }) {
  const open = useContext(OpenPolicyDialog);
  const { name } = policy;
  const configured = policy[kind].find(({ source }) => source === "configuration");
  return (
    <>
      <RulesBehind {...{ policy, kind }} />
      {configured !== undefined && (
        <p class="dim">
          {numberText(configured.count)} in the configuration. They may be secrets, so only their number is shown.
        </p>
      )}
      {may("write") && (
        <button type="button" onClick={() => open({ kind: "entries", policy: name, list: kind, ruleId: null })}>
          Add {kind === "overrides" ? "overrides" : `${kind} entries`}
        </button>
      )}
    </>
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
          <li key={rule.id} data-rule={rule.id}>
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
