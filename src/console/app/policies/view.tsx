/** The view "Policies": what is in effect, where it comes from, and changes to it. */
import { useState } from "preact/hooks";
import type { Policy, Statistics } from "../api/answers.ts";
import { useChanges } from "../api/changes.ts";
import { read } from "../api/client.ts";
import { readPolicies } from "../api/policies.ts";
import { usePolled } from "../api/poll.ts";
import { Empty, Failure, Loading } from "../parts/notice.tsx";
import { hrefOf, route } from "../shell/route.ts";
import { LastHour } from "./hour.tsx";
import { type OpenDialog, PolicyDialog } from "./open-dialog.tsx";
import "./policies.css";
import { PolicyCard } from "./policy-card.tsx";
import { PolicyPage } from "./policy-page.tsx";

const policiesPauseMs = 10_000;
const statisticsPauseMs = 5_000;

export function PoliciesView() {
  const policies = usePolled(readPolicies, policiesPauseMs);
  const hour = usePolled((abort) => read<Statistics>("stats", abort), statisticsPauseMs);
  useChanges(policies.readAgain);
  const [dialog, setDialog] = useState<OpenDialog | null>(null);
  const list = policies.value.value;
  const problem = policies.problem.value;
  if (list === null) {
    if (problem === null) return <Loading what="the policies" />;
    return <Failure problem={problem} onRetry={policies.readAgain} />;
  }
  const changed = list.find(({ name }) => name === dialog?.policy);
  return (
    <LastHour.Provider value={hour.value}>
      <Shown list={list} onOpen={setDialog} />
      {dialog !== null && changed !== undefined && (
        <PolicyDialog {...{ dialog, live: changed }} onClose={() => setDialog(null)} />
      )}
    </LastHour.Provider>
  );
}

interface ShownProps {
  readonly list: readonly Policy[];
  readonly onOpen: (dialog: OpenDialog) => void;
}

function Shown({ list, onOpen }: ShownProps) {
  const name = route.value.query.get("name");
  if (name === null) return <PolicyList {...{ list, onOpen }} />;
  const policy = list.find((each) => each.name === name);
  if (policy !== undefined) return <PolicyPage {...{ policy, onOpen }} />;
  return (
    <section>
      <h1>Policies</h1>
      <Empty>
        The configuration has no policy {name}. See <a href={hrefOf("policies")}>all policies</a>.
      </Empty>
    </section>
  );
}

const PolicyList = ({ list, onOpen }: ShownProps) => (
  <section>
    <h1>Policies</h1>
    <p class="hint">
      A change reaches all running instances of the Worker within a second while this page is open, otherwise within 5
      seconds.
    </p>
    {list.length === 0 && <Empty>The configuration has no policies.</Empty>}
    <div class="grid">
      {list.map((policy) => (
        <PolicyCard key={policy.name} {...{ policy, onOpen }} />
      ))}
    </div>
  </section>
);
