/** A policy in the list: what is in effect, and where each part comes from. */
import type { EntriesPart, Policy } from "../api/answers.ts";
import { numberText } from "../parts/text.ts";
import { hrefOf } from "../shell/route.ts";
import { limitLine, limitsOfRequests } from "./limits-text.ts";
import { ModeBadge, ModeSwitch } from "./mode-switch.tsx";
import type { OpenDialog } from "./open-dialog.tsx";
import { Source } from "./source.tsx";

interface PolicyCardProps {
  readonly policy: Policy;
  readonly onOpen: (dialog: OpenDialog) => void;
}

export function PolicyCard({ policy, onOpen }: PolicyCardProps) {
  const { name, mode, limits } = policy;
  return (
    <article class="card policy" aria-label={`Policy ${name}`}>
      <header class="row">
        <h2>
          <a href={hrefOf("policies", { name })}>{name}</a>
        </h2>
        <ModeBadge mode={mode.value} />
        <PolicyLinks name={name} />
      </header>
      <KeyParts policy={policy} />
      <ModeSwitch {...{ policy, onOpen }} />
      <dl class="parts">
        <dt>Limits</dt>
        <dd>
          {limits.value.map(limitLine).join("; ") || limitsOfRequests} <Source policy={policy} of={limits} />
        </dd>
        {entryKinds.map((kind) => (
          <EntryCounts key={kind} {...{ policy, kind }} />
        ))}
      </dl>
      <Refused policy={policy} />
    </article>
  );
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

interface EntryCountsProps {
  readonly policy: Policy;
  readonly kind: (typeof entryKinds)[number];
}

function EntryCounts({ policy, kind }: EntryCountsProps) {
  const parts: readonly EntriesPart[] = policy[kind];
  return (
    <>
      <dt>{kind}</dt>
      <dd>
        {parts.length === 0 && <span class="dim">no entries</span>}
        {parts.map((part) => (
          <div key={part.rule ?? ""}>
            {numberText(part.count)} {part.count === 1 ? "entry" : "entries"} <Source policy={policy} of={part} />
          </div>
        ))}
      </dd>
    </>
  );
}

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
