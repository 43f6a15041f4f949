/** The view "Advisor": limits that reach a goal, found in sampled traffic of the last 24 hours. */
import { useEffect, useState } from "preact/hooks";
import type { Policy, Statistics } from "../api/answers.ts";
import { useChanges } from "../api/changes.ts";
import { read } from "../api/client.ts";
import { PolicyChoice, readPolicies } from "../parts/policies.tsx";
import { usePolled } from "../api/poll.ts";
import { Empty, Failure, Loading } from "../parts/notice.tsx";
import { LastHour } from "../policies/parts.tsx";
import { type OpenDialog, PolicyDialog } from "../policies/dialogs.tsx";
import { hrefOf, navigate, replaceQuery, route } from "../shell/route.ts";
import "./advisor.css";
import { second } from "../parts/count-down.tsx";
import type { KnownSamples } from "../replay/messages.ts";
import { type SamplesState, useSamples } from "../replay/worker-client.ts";
import { countOf, noAnswer, olderText } from "../what-if/sample-texts.ts";
import { AdviceFor } from "./advice-for.tsx";
import { GoalPicker } from "./goal-picker.tsx";
import type { readGoal } from "./goal-reader.ts";
import { areOld, noSelection, samplesText } from "./candidates.ts";

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
            navigate("advisor", { policy: chosen, goal: route.value.query.get("goal") ?? undefined })
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

interface OfPolicyProps {
  readonly policy: Policy;
  readonly onOpen: (dialog: OpenDialog) => void;
}

const defaultGoal = "deny at most 0.1 % of requests";

export function OfPolicy({ policy, onOpen }: OfPolicyProps) {
  const state = useSamples(policy.name);
  const { reader, failure } = useGoalReader();
  const written = route.value.query.get("goal") ?? defaultGoal;
  const samples = state.samples.value;
  const obstacle = samples === null ? null : noAnswer(samples, undefined);
  if (failure !== null) return <Failure problem={failure} onRetry={() => location.reload()} />;
  if (reader === null) return <Loading what="the goals" />;
  const result = reader(written);
  const goal = "goal" in result ? result.goal : null;
  return (
    <>
      <GoalPicker goal={goal} text={written} read={reader} onChoose={chooseGoal} />
      {"problem" in result && <p class="card problem">{result.problem}</p>}
      {samples === null && <NoSamples state={state} />}
      {samples !== null && (
        <>
          <SamplesLine samples={samples} />
          {state.problem.value !== null && (
            <p class="warning" role="status">
              {olderText(samples, state.problem.value)}{" "}
              <button type="button" onClick={state.readAgain}>
                Try again
              </button>
            </p>
          )}
          {obstacle !== null && <Empty>{obstacle}</Empty>}
          {obstacle === null && goal !== null && <AdviceFor {...{ policy, goal, samples, onOpen }} />}
        </>
      )}
    </>
  );
}

/** Candidates of the former goal may not exist any more. */
const chooseGoal = (text: string): void => replaceQuery({ goal: text, ...noSelection });

/** The reader of goals needs the engine's parser, which the other views do not load. */
function useGoalReader() {
  const [reader, setReader] = useState<typeof readGoal | null>(null);
  const [failure, setFailure] = useState<Error | null>(null);
  useEffect(() => {
    import("./goal-reader.ts").then(
      (loaded) => setReader(() => loaded.readGoal),
      () => setFailure(new Error("The page cannot load the advisor.")),
    );
  }, []);
  return { reader, failure };
}

/** The first read of samples. */
function NoSamples({ state: { problem, progress, readAgain } }: { readonly state: SamplesState }) {
  if (problem.value !== null) return <Failure problem={problem.value} onRetry={readAgain} />;
  const share = progress.value;
  return (
    <div class="notice">
      <Loading what="the samples" />
      <progress value={share} aria-label="Samples that have arrived" />
    </div>
  );
}

function SamplesLine({ samples }: { readonly samples: KnownSamples }) {
  if (samples.arrivals === 0) return null;
  const nowMs = second.value;
  const { otherLimitsArrivals } = samples.source;
  return (
    <p class="hint basis">
      {samplesText(samples, nowMs)}
      {otherLimitsArrivals > 0 &&
        ` Left out: ${countOf(otherLimitsArrivals, "request")} under overrides or limits of single keys.`}
      {areOld(samples, nowMs) && (
        <span class="warning"> The control plane has received no newer samples since then.</span>
      )}
    </p>
  );
}
