/** The goal and the advice for one policy. */
import { useEffect, useState } from "preact/hooks";
import type { Policy } from "../api/answers.ts";
import { second } from "../parts/count-down.tsx";
import { Empty, Failure, Loading } from "../parts/notice.tsx";
import type { OpenDialog } from "../policies/open-dialog.tsx";
import type { KnownSamples } from "../replay/messages.ts";
import { type SamplesState, useSamples } from "../replay/use-samples.ts";
import { replaceQuery, route } from "../shell/route.ts";
import { countOf, noAnswer, olderText } from "../what-if/sample-texts.ts";
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
