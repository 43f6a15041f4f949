/** The view "Policies": what is in effect for each policy, and how many requests it denies. */
import { useMemo } from "preact/hooks";
import type { PolicyView } from "../../../admin/wire.ts";
import { type CountedTraffic, newTally, numbersOf } from "../overview/traffic.ts";
import { Empty, Reading } from "../parts/notice.tsx";
import { ModeBadge, usePolicies } from "../parts/policies.tsx";
import { Sparkline } from "../parts/sparkline.tsx";
import { type Column, numberColumn, Table } from "../parts/table.tsx";
import { countOf, numberText, percentText } from "../parts/text.ts";
import { hrefOf, route } from "../shell/route.ts";
import { WithDialogs } from "./dialogs.tsx";
import { PolicyPage } from "./page.tsx";
import { Source, useHourTraffic } from "./parts.tsx";
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
  const traffic = useHourTraffic();
  const columns = useMemo(() => columnsOf(traffic), [traffic]);
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

/** @param traffic null before it is read. Until then, numbers are dashes. */
function columnsOf(traffic: CountedTraffic | null): readonly Column<PolicyView>[] {
  const numbers = ({ name }: PolicyView) => numbersOf(traffic?.policies.get(name)?.total ?? newTally(0));
  const known = (text: string): string => (traffic === null ? "–" : text);
  return [
    { title: "Policy", cell: nameCell, sortBy: ({ name }) => name },
    { title: "Mode", cell: modeCell, sortBy: ({ mode }) => mode.value },
    { title: "Limits", cell: limitsCell },
    numberColumn(
      "Requests",
      (policy) => numbers(policy).decisions,
      (policy) => known(numberText(numbers(policy).decisions)),
    ),
    numberColumn(
      "Denied",
      (policy) => numbers(policy).denied,
      (policy) => {
        const { decisions, denied } = numbers(policy);
        return known(`${numberText(denied)} (${percentText(denied, decisions)})`);
      },
    ),
    {
      title: "Denied over time",
      cell: (policy) => numbers(policy).denied > 0 && sparklineCell(policy, traffic),
    },
    { title: "Changes", cell: changesCell, sortBy: ({ rules }) => rules.length },
  ];
}

const sparklineCell = ({ name }: PolicyView, traffic: CountedTraffic | null) => (
  <Sparkline values={traffic?.policies.get(name)?.lines.denied ?? []} label={`Denied by ${name} over time`} />
);

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
