/** The goal and the advice for one policy. */
import { useEffect, useState } from "preact/hooks";
import type { Policy } from "../api/answers.ts";
import { second } from "../parts/count-down.tsx";
import { Empty, Failure, Loading } from "../parts/notice.tsx";
import type { OpenDialog } from "../policies/open-dialog.tsx";
import type { KnownSamples } from "../replay/messages.ts";
import { type SamplesState, useSamples } from "../replay/use-samples.ts";
import { replaceQuery, route } from "../shell/route.ts";
import { AdviceFor } from "./advice-for.tsx";
import { GoalPicker } from "./goal-picker.tsx";
import type { readGoal } from "./goal-reader.ts";
import { noSelection } from "./selection.ts";
import { areOld, samplesText } from "./texts.ts";

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
              Reading newer samples failed: {state.problem.value.message}{" "}
              <button type="button" onClick={state.readAgain}>
                Try again
              </button>
            </p>
          )}
          {samples.arrivals === 0 && <NothingSampled samples={samples} />}
          {samples.arrivals > 0 && goal !== null && (
            <AdviceFor {...{ policy, goal, samples, onOpen }} />
          )}
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
        ` ${otherLimitsArrivals} requests under overrides or limits of single keys are left out.`}
      {areOld(samples, nowMs) && (
        <span class="warning"> The control plane has received no newer samples since then.</span>
      )}
    </p>
  );
}

function NothingSampled({
  samples: { sample, policy, source },
}: {
  readonly samples: KnownSamples;
}) {
  if (sample === "off") {
    return (
      <Empty>
        Sampling is off. Set <code>SAMPLE = "1/64"</code> among the variables, deploy, and come back
        after some traffic.
      </Empty>
    );
  }
  return (
    <Empty>
      {(source.requests ?? 0) === 0
        ? `Policy ${policy} has had no requests in the last 24 hours. Samples appear here a few seconds after the first ones.`
        : `Policy ${policy} has had requests in the last 24 hours, but none of a sampled key (SAMPLE is ${sample}). With few keys, set SAMPLE to "1/1", deploy, and come back after some traffic.`}
    </Empty>
  );
}
