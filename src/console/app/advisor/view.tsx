/** The view "Advisor": limits that reach a goal, found in sampled traffic of the last 24 hours. */
import { useEffect, useMemo } from "preact/hooks";
import type { PolicyView } from "../../../admin/wire.ts";
import { levelNote } from "../../../advisor/replay/timelines.ts";
import { AnyPolicies, PolicyChoice } from "../parts/policies.tsx";
import { Empty, Failure, Loading } from "../parts/notice.tsx";
import { WithDialogs } from "../policies/dialogs.tsx";
import { hrefOf, navigate, replaceQuery, route } from "../shell/route.ts";
import "./advisor.css";
import { second } from "../parts/count-down.tsx";
import type { KnownSamples } from "../replay/messages.ts";
import { type SamplesState, useSamples } from "../replay/worker-client.ts";
import { countOf } from "../parts/text.ts";
import { noAnswer, olderText } from "../what-if/sample-texts.ts";
import { AdviceDetails, Recommendation, useAdvice } from "./advice-for.tsx";
import { GoalPicker } from "./goal-picker.tsx";
import { areOld, defaultGoal, noSelection, samplesText } from "./candidates.ts";
import { lazy } from "../parts/lazy.ts";

export const AdvisorView = () => (
  <section class="advisor">
    <h1>Advisor</h1>
    <p class="hint">
      The advisor replays the traffic of the last 24 hours under many limits, and recommends the one that reaches your
      goal. <a href={hrefOf("playground")}>Compare strategies</a> in the playground.
    </p>
    <AnyPolicies>{(policies) => <OfPolicies policies={policies} />}</AnyPolicies>
  </section>
);

function OfPolicies({ policies }: { readonly policies: readonly PolicyView[] }) {
  const name = route.value.query.get("policy");
  const first = policies[0]?.name;
  useEffect(() => {
    if (name === null && first !== undefined) replaceQuery({ policy: first });
  }, [name, first]);
  const policy = policies.find((each) => each.name === name);
  return (
    <WithDialogs policies={policies}>
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
      {policy?.within !== undefined && <p class="hint">{levelNote(policy.name, policy.within)}</p>}
      {policy !== undefined && <OfPolicy key={policy.name} policy={policy} />}
      {policy === undefined && name !== null && <Empty>There is no policy with the name {name}.</Empty>}
    </WithDialogs>
  );
}

export function OfPolicy({ policy }: { readonly policy: PolicyView }) {
  const state = useSamples(policy.name);
  const { code: reader, hasFailed } = useGoalReader();
  const written = route.value.query.get("goal") ?? defaultGoal;
  const samples = state.value.value;
  const obstacle = samples === null ? null : noAnswer(samples, undefined);
  const result = useMemo(() => reader?.(written) ?? null, [reader, written]);
  const goal = result !== null && "goal" in result ? result.goal : null;
  const advised = samples === null || obstacle !== null || goal === null ? null : { policy, goal, samples };
  const task = useAdvice(policy.name, advised);
  if (hasFailed) {
    return <Failure problem={new Error("The page cannot load the advisor.")} onRetry={() => location.reload()} />;
  }
  if (reader === null || result === null) return <Loading what="the goals" />;
  return (
    <>
      <div class="beside first">
        <section class="card" aria-label="Recommendation">
          {"problem" in result && <p class="problem">{result.problem}</p>}
          {samples === null && <NoSamples state={state} />}
          {obstacle !== null && <Empty>{obstacle}</Empty>}
          {advised !== null && <Recommendation policy={policy.name} task={task} />}
        </section>
        <GoalPicker goal={goal} text={written} read={reader} onChoose={chooseGoal} />
      </div>
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
          {advised !== null && task.result.value !== null && <AdviceDetails {...advised} advice={task.result.value} />}
        </>
      )}
    </>
  );
}

/** The candidates of the previous goal may not exist any more. */
const chooseGoal = (text: string): void => replaceQuery({ goal: text, ...noSelection });

/** The reader of goals needs the engine's parser, which the other views do not load. */
const useGoalReader = lazy(async () => (await import("./goal-reader.ts")).readGoal);

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
