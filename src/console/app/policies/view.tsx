/** The view "Policies": what is in effect, where it comes from, and changes to it. */
import { PolicyPage } from "./policy-page.tsx";
import type { EntriesPart, Policy } from "../api/answers.ts";
import { ModeBadge, usePolicies } from "../parts/policies.tsx";
import { Empty, Reading } from "../parts/notice.tsx";
import { hrefOf, route } from "../shell/route.ts";
import { entryKinds, KeyParts, ModeSwitch, PolicyLinks, Refused, Source } from "./parts.tsx";
import { WithDialogs } from "./dialogs.tsx";
import "./policies.css";
import { limitLine, limitsOfRequests } from "./texts.ts";
import { countOf } from "../parts/text.ts";

export const PoliciesView = () => (
  <Reading of={usePolicies()} what="the policies">
    {(list) => (
      <WithDialogs policies={list}>
        <Shown list={list} />
      </WithDialogs>
    )}
  </Reading>
);

function Shown({ list }: { readonly list: readonly Policy[] }) {
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

const PolicyList = ({ list }: { readonly list: readonly Policy[] }) => (
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

export function PolicyCard({ policy }: { readonly policy: Policy }) {
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
      <ModeSwitch policy={policy} />
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

function EntryCounts({ policy, kind }: { readonly policy: Policy; readonly kind: (typeof entryKinds)[number] }) {
  const parts: readonly EntriesPart[] = policy[kind];
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
