/** The view "Advisor": limits that reach a goal, found in sampled traffic of the last 24 hours. */
import { useEffect, useState } from "preact/hooks";
import type { Policy, Statistics } from "../api/answers.ts";
import { useChanges } from "../api/changes.ts";
import { read } from "../api/client.ts";
import { readPolicies } from "../api/policies.ts";
import { usePolled } from "../api/poll.ts";
import { Empty, Failure, Loading } from "../parts/notice.tsx";
import { PolicyChoice } from "../parts/policy-choice.tsx";
import { LastHour } from "../policies/hour.tsx";
import { type OpenDialog, PolicyDialog } from "../policies/open-dialog.tsx";
import { hrefOf, navigate, replaceQuery, route } from "../shell/route.ts";
import "./advisor.css";
import { OfPolicy } from "./of-policy.tsx";

const policiesPauseMs = 10_000;
const statisticsPauseMs = 5_000;

export function AdvisorView() {
  const { value, problem, readAgain } = usePolled(readPolicies, policiesPauseMs);
  const hour = usePolled((abort) => read<Statistics>("stats", abort), statisticsPauseMs);
  useChanges(readAgain);
  const policies = value.value;
  return (
    <LastHour.Provider value={hour.value}>
      <section class="advisor">
        <h1>Advisor</h1>
        <p class="hint">
          Replays the traffic of the last 24 hours under many limits, and recommends the one that reaches your goal.{" "}
          <a href={hrefOf("playground")}>Compare strategies</a> in the playground.
        </p>
        {policies === null && problem.value === null && <Loading what="the policies" />}
        {policies === null && problem.value !== null && <Failure problem={problem.value} onRetry={readAgain} />}
        {policies?.length === 0 && <Empty>The configuration has no policies.</Empty>}
        {policies !== null && policies.length > 0 && <OfPolicies policies={policies} />}
      </section>
    </LastHour.Provider>
  );
}

function OfPolicies({ policies }: { readonly policies: readonly Policy[] }) {
  const [dialog, setDialog] = useState<OpenDialog | null>(null);
  const name = route.value.query.get("policy");
  const first = policies[0]?.name;
  useEffect(() => {
    if (name === null && first !== undefined) replaceQuery({ policy: first });
  }, [name, first]);
  const policy = policies.find((each) => each.name === name);
  const changed = policies.find((each) => each.name === dialog?.policy);
  return (
    <>
      <div class="row choice">
        <PolicyChoice
          policies={policies}
          chosen={policy}
          onChoose={(chosen) =>
            navigate("advisor", {
              policy: chosen,
              goal: route.value.query.get("goal") ?? undefined,
            })
          }
        />
        {policy !== undefined && <a href={hrefOf("policies", { name: policy.name })}>Policy {policy.name}</a>}
      </div>
      {policy !== undefined && <OfPolicy key={policy.name} policy={policy} onOpen={setDialog} />}
      {policy === undefined && name !== null && <Empty>There is no policy with the name {name}.</Empty>}
      {dialog !== null && changed !== undefined && (
        <PolicyDialog {...{ dialog, live: changed }} onClose={() => setDialog(null)} />
      )}
    </>
  );
}
