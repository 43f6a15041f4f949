/** The advice for a goal: the recommendation, the candidates, and the limit that the operator moves. */
import { useMemo } from "preact/hooks";
import type { Goal } from "../../../advisor/search/advice.ts";
import type { FullLimit, Policy } from "../api/answers.ts";
import { Failure } from "../parts/notice.tsx";
import { durationText } from "../parts/text.ts";
import type { OpenDialog } from "../policies/open-dialog.tsx";
import { type TaskState, useTask } from "../replay/latest-task.ts";
import type { KnownSamples, ShownAdvice, ShownCandidate } from "../replay/messages.ts";
import { runTask } from "../replay/replayer.ts";
import { replaceQuery, route } from "../shell/route.ts";
import { CandidateTable } from "./candidate-table.tsx";
import { withLimit } from "./limit-steps.ts";
import { Outliers } from "./outliers.tsx";
import { LazyPlot } from "./lazy-plot.tsx";
import { goalLine, pointsOf } from "./plot-points.ts";
import { chosenIn, queryOf, unitsIn } from "./selection.ts";
import { limitsLine } from "./texts.ts";
import { TryLimit } from "./try-limit.tsx";

interface AdviceForProps {
  readonly policy: Policy;
  readonly goal: Goal;
  readonly samples: KnownSamples;
  readonly onOpen: (dialog: OpenDialog) => void;
}

export function AdviceFor({ policy, goal, samples, onOpen }: AdviceForProps) {
  const { name, limits } = policy;
  const inputs = [name, samples.readAtMs, JSON.stringify(goal)];
  const task = useTask((options) => runTask("advise", { policy: name, goal }, options), inputs);
  const inEffect = useTask(
    (options) => runTask("candidate", { policy: name, goal, limits: limits.value }, options),
    [...inputs, JSON.stringify(limits.value)],
  );
  const advice = task.result.value;
  return (
    <>
      <Progress task={task} />
      {task.problem.value !== null && <Failure problem={task.problem.value} />}
      {advice !== null && <Shown {...{ policy, goal, samples, advice, onOpen }} inEffect={inEffect.result.value} />}
    </>
  );
}

/** Has its place while nothing runs, so that nothing moves when it does. */
const Progress = ({ task: { share } }: { readonly task: TaskState<unknown> }) => (
  <p class="progress dim" role="status">
    {share.value !== null && (
      <>
        Replaying the traffic under candidates … <progress value={share.value} aria-label="Replays that are done" />
      </>
    )}
  </p>
);

interface ShownAdviceProps extends AdviceForProps {
  readonly advice: ShownAdvice;
  readonly inEffect: ShownCandidate | null;
}

function Shown({ policy, goal, samples, advice, inEffect, onOpen }: ShownAdviceProps) {
  const { query } = route.value;
  const selected = chosenIn(advice, query);
  const candidate = selected === null ? null : (advice.candidates[selected] ?? null);
  const units = candidate === null ? 0 : unitsIn(candidate, query);
  const changed = useChanged({ policy, goal, samples, candidate, units });
  const onChoose = (index: number): void => {
    const chosen = advice.candidates[index];
    if (chosen !== undefined) replaceQuery(queryOf(chosen));
  };
  const data = useMemo(
    () => ({
      points: pointsOf(advice, { inEffect, changed: changed.shown, selected }),
      goal: goalLine(advice.goal),
    }),
    [advice, inEffect, changed.shown, selected],
  );
  return (
    <>
      <Recommendation advice={advice} />
      {advice.candidates.length > 0 && (
        <div class="beside">
          <section class="card">
            <LazyPlot data={data} onChoose={onChoose} />
          </section>
          {candidate !== null && (
            <TryLimit
              {...{ candidate, units, limits: changed.limits }}
              shown={changed.shown ?? candidate}
              isRunning={changed.isRunning}
              onMove={(moved) => replaceQuery(queryOf(candidate, moved))}
              onUse={(proposed) => onOpen({ kind: "limits", policy: policy.name, proposed })}
            />
          )}
        </div>
      )}
      {advice.candidates.length > 0 && (
        <section class="card">
          <h2>Candidates</h2>
          <p class="hint">
            Ranges are 95 % confidence intervals for all keys, also for keys that are unlike the sampled ones. A goal
            about shares is met if the whole range meets it.
          </p>
          <CandidateTable {...{ advice, selected, inEffect, onChoose }} />
        </section>
      )}
      {advice.candidates.length > 0 && <Outliers policy={policy.name} outliers={advice.outliers} />}
    </>
  );
}

interface ChangedLimits extends Pick<AdviceForProps, "policy" | "goal" | "samples"> {
  readonly candidate: ShownCandidate | null;
  readonly units: number;
}

/** Replays the selected candidate with the limit of the slider. The previous result is shown meanwhile. */
function useChanged({ policy, goal, samples, candidate, units }: ChangedLimits): {
  /** Null while the limit is that of the candidate. */
  readonly shown: ShownCandidate | null;
  readonly limits: readonly FullLimit[];
  readonly isRunning: boolean;
} {
  const limits = useMemo(() => (candidate === null ? [] : withLimit(candidate.limits, units)), [candidate, units]);
  const isMoved = candidate !== null && candidate.limits[0]?.limit !== units;
  const request = { policy: policy.name, goal, limits };
  const { result, share } = useTask(
    isMoved ? (options) => runTask("candidate", request, options) : null,
    [samples.readAtMs, goal, limits, isMoved],
    { isContinuous: true },
  );
  return { shown: isMoved ? result.value : null, limits, isRunning: share.value !== null };
}

/** The heading differs, because a reason alone does not say whether a limit is recommended. */
function Recommendation({ advice: { candidates, global, notes, recommendation } }: { readonly advice: ShownAdvice }) {
  const { kind, reason } = recommendation;
  const chosen = kind === "recommended" ? candidates[recommendation.candidate] : global;
  const line = limitsLine(chosen?.limits ?? []);
  return (
    <section class="card" aria-label="Recommendation">
      {kind === "recommended" && (
        <h2>
          Recommended: <strong>{line}</strong>
        </h2>
      )}
      {kind === "global" && (
        <h2>
          Recommended: <strong>{line}</strong> for all keys together
        </h2>
      )}
      {kind === "unneeded" && <h2>No limit is needed</h2>}
      {kind === "wait" && (
        <h2>
          Too little data
          {recommendation.forMs !== null && `: wait about ${durationText(recommendation.forMs)} more`}
        </h2>
      )}
      <p>{reason}</p>
      {notes.map((note) => (
        <p key={note} class="hint">
          {note}
        </p>
      ))}
    </section>
  );
}
