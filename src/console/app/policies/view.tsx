/** The view "Policies": what is in effect for each policy, and how many requests it denies. */
import { useContext, useMemo } from "preact/hooks";
import type { PolicyView } from "../../../admin/wire.ts";
import { decisionsOf } from "../keys/denials.ts";
import { Empty, Reading } from "../parts/notice.tsx";
import { ModeBadge, usePolicies } from "../parts/policies.tsx";
import { type Column, numberColumn, Table } from "../parts/table.tsx";
import { countOf, numberText, percentText } from "../parts/text.ts";
import { hrefOf, route } from "../shell/route.ts";
import { WithDialogs } from "./dialogs.tsx";
import { PolicyPage } from "./page.tsx";
import { LastHour, Source } from "./parts.tsx";
import "./policies.css";
import { limitsLine, limitsOfRequests } from "./texts.ts";

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

function PolicyList({ list }: { readonly list: readonly PolicyView[] }) {
  const statistics = useContext(LastHour);
  const columns = useMemo((): readonly Column<PolicyView>[] => {
    const decisions = (policy: PolicyView) => decisionsOf({ points: statistics?.points ?? [] }, policy.name);
    /** Numbers have a dash until they arrive. */
    const known = (text: string): string => (statistics === null ? "–" : text);
    return [
      {
        title: "Policy",
        cell: nameCell,
        sortBy: ({ name }) => name,
      },
      {
        title: "Mode",
        cell: modeCell,
        sortBy: ({ mode }) => mode.value,
      },
      {
        title: "Limits",
        cell: limitsCell,
      },
      numberColumn(
        "Requests",
        (policy) => decisions(policy).all,
        (policy) => known(numberText(decisions(policy).all)),
      ),
      numberColumn(
        "Denied",
        (policy) => decisions(policy).denied,
        (policy) => {
          const { all, denied } = decisions(policy);
          return known(`${numberText(denied)} (${percentText(denied, all)})`);
        },
      ),
      { title: "Changes", cell: changesCell, sortBy: ({ rules }) => rules.length },
    ];
  }, [statistics]);
  return (
    <section>
      <h1>Policies</h1>
      <p class="hint">
        Requests and denials are those of the last hour. A change reaches all instances of the Worker within 5 seconds.
      </p>
      {list.length === 0 ? (
        <Empty>The configuration has no policies.</Empty>
      ) : (
        <div class="card">
          <Table
            caption="Policies, in the order of the configuration"
            columns={columns}
            rows={list}
            keyOf={({ name }) => name}
          />
        </div>
      )}
    </section>
  );
}

const nameCell = ({ name }: PolicyView) => <a href={hrefOf("policies", { name })}>{name}</a>;

const modeCell = (policy: PolicyView) => (
  <>
    <ModeBadge mode={policy.mode.value} /> <Source policy={policy} of={policy.mode} />
  </>
);

const limitsCell = (policy: PolicyView) => (
  <>
    {limitsLine(policy.limits.value) || limitsOfRequests} <Source policy={policy} of={policy.limits} />
  </>
);

/** The rules that change the policy now. */
function changesCell({ name, rules, refused }: PolicyView) {
  if (rules.length === 0 && refused.length === 0) return <span class="dim">none</span>;
  return (
    <>
      <a href={hrefOf("audit", { policy: name })}>{countOf(rules.length, "rule")}</a>
      {refused.length > 0 && <span class="warning"> ({numberText(refused.length)} without effect)</span>}
    </>
  );
}
