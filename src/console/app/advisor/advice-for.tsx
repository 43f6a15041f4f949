/** The advice for a goal: the recommendation, the candidates, and the limit that the operator moves. */
import { useContext, useId, useMemo } from "preact/hooks";
import type { DeniedKey } from "../../../advisor/replay/result.ts";
import type { Goal } from "../../../advisor/search/goal.ts";
import type { FullLimit, PolicyView } from "../../../admin/wire.ts";
import { Failure } from "../parts/notice.tsx";
import { countOf, durationText, numberText, waitText, windowText } from "../parts/text.ts";
import { type TaskState, useTask } from "../replay/latest-task.ts";
import type { KnownSamples, ShownAdvice, ShownCandidate } from "../replay/messages.ts";
import { runTask } from "../replay/worker-client.ts";
import { hrefOf, replaceQuery, route } from "../shell/route.ts";
import {
  chosenIn,
  countEstimateText,
  goalLine,
  nearestStep,
  pointsOf,
  queryOf,
  shareEstimateText,
  shareText,
  stepsAround,
  unitsIn,
  withLimit,
} from "./candidates.ts";
import { lazy } from "../parts/lazy.ts";
import type { CandidatePlotProps } from "./candidate-plot.tsx";
import { type Column, numberColumn, Table } from "../parts/table.tsx";
import { may } from "../shell/session.ts";
import { keyName } from "../keys/known-keys.ts";
import { OpenPolicyDialog } from "../policies/parts.tsx";
import { limitsLine } from "../policies/texts.ts";

interface Advised {
  readonly policy: PolicyView;
  readonly goal: Goal;
  readonly samples: KnownSamples;
}

/** Searches for limits that reach the goal. @param advised null while the goal or the samples are missing */
export function useAdvice(name: string, advised: Advised | null): TaskState<ShownAdvice> {
  const goal = advised?.goal;
  return useTask(goal === undefined ? null : (options) => runTask("advise", { policy: name, goal }, options), [
    name,
    advised?.samples.readAtMs,
    JSON.stringify(goal),
  ]);
}

interface RecommendationProps {
  readonly policy: string;
  readonly task: TaskState<ShownAdvice>;
}

/** The answer to the goal, in one sentence and one button. */
export function Recommendation({ policy, task: { result, problem, share } }: RecommendationProps) {
  return (
    <>
      {result.value !== null && <Answer policy={policy} advice={result.value} />}
      {problem.value !== null && <Failure problem={problem.value} />}
      <p class="progress dim" role="status">
        {share.value !== null && (
          <>
            Replaying the traffic under candidates … <progress value={share.value} aria-label="Replays that are done" />
          </>
        )}
      </p>
    </>
  );
}

interface AdviceDetailsProps extends Advised {
  readonly advice: ShownAdvice;
}

/** The plot of the candidates, the limit that the operator moves, and the numbers behind them. */
export function AdviceDetails({ policy, goal, samples, advice }: AdviceDetailsProps) {
  const { name } = policy;
  const limitsInEffect = policy.limits.value;
  const inEffect = useTask(
    (options) => runTask("candidate", { policy: name, goal, limits: limitsInEffect }, options),
    [name, samples.readAtMs, JSON.stringify(goal), JSON.stringify(limitsInEffect)],
  ).result.value;
  const open = useContext(OpenPolicyDialog);
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
    () => ({ points: pointsOf(advice, { inEffect, changed: changed.shown, selected }), goal: goalLine(advice.goal) }),
    [advice, inEffect, changed.shown, selected],
  );
  if (advice.candidates.length === 0) return null;
  return (
    <>
      <div class="beside">
        <section class="card">
          <LazyPlot data={data} onChoose={onChoose} />
        </section>
        {candidate === null ? (
          <p class="card hint">Select a point of the plot to try its limit.</p>
        ) : (
          <TryLimit
            {...{ candidate, units, limits: changed.limits }}
            isRecommended={isRecommended(advice, selected) && units === candidate.limits[0]?.limit}
            shown={changed.shown ?? candidate}
            isRunning={changed.isRunning}
            onMove={(moved) => replaceQuery(queryOf(candidate, moved))}
            onUse={(proposed) => open({ kind: "limits", policy: policy.name, proposed })}
          />
        )}
      </div>
      <details class="card">
        <summary>All {countOf(advice.candidates.length, "candidate")}</summary>
        <p class="hint">
          Ranges are 95 % confidence intervals for all keys, also for keys that are unlike the sampled ones. A goal
          about shares is met if the whole range meets it.
        </p>
        <CandidateTable {...{ advice, selected, inEffect, onChoose }} />
      </details>
      <Outliers policy={policy.name} outliers={advice.outliers} />
    </>
  );
}

const isRecommended = ({ recommendation }: ShownAdvice, index: number | null): boolean =>
  recommendation.kind === "recommended" && recommendation.candidate === index;

const usePlot = lazy(async () => (await import("./candidate-plot.tsx")).CandidatePlot);

/** Without the plot the view stays usable, because the table of candidates has the same numbers. */
function LazyPlot(props: CandidatePlotProps) {
  const { code: Plot, hasFailed } = usePlot();
  if (Plot !== null) return <Plot {...props} />;
  return <p class="plot-place dim">{hasFailed ? "The page cannot load the plot." : "…"}</p>;
}

interface ChangedLimits extends Advised {
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

interface AnswerProps {
  readonly policy: string;
  readonly advice: ShownAdvice;
}

/** The heading differs, because a reason alone does not say whether a limit is recommended. */
function Answer({ policy, advice: { candidates, global, notes, recommendation } }: AnswerProps) {
  const open = useContext(OpenPolicyDialog);
  const { kind, reason } = recommendation;
  const chosen = kind === "recommended" ? candidates[recommendation.candidate] : global;
  const proposed = chosen?.limits ?? [];
  const line = limitsLine(proposed);
  const isForEachKey = kind === "recommended";
  const folded = isForEachKey ? [reason, ...notes] : notes;
  return (
    <>
      {isForEachKey && (
        <>
          <h2>
            Recommended: <strong>{line}</strong>, which denies {shareText(chosen?.deniedShare.value ?? 0)} of requests
            and {shareText(chosen?.deniedKeyShare.value ?? 0)} of keys.
          </h2>
          {may("write") && (
            <button type="button" class="primary" onClick={() => open({ kind: "limits", policy, proposed })}>
              Use this limit
            </button>
          )}
        </>
      )}
      {kind === "global" && (
        <h2>
          Recommended: <strong>{line}</strong> for all keys together
        </h2>
      )}
      {kind === "unneeded" && <h2>No limit is needed</h2>}
      {kind === "wait" && (
        <h2>
          Too few keys for this goal
          {recommendation.forMs !== null && `: wait about ${durationText(recommendation.forMs)} more`}
        </h2>
      )}
      {!isForEachKey && <p>{reason}</p>}
      {folded.length > 0 && (
        <details>
          <summary>{isForEachKey ? "Why this limit" : "About the data"}</summary>
          {folded.map((text) => (
            <p key={text}>{text}</p>
          ))}
        </details>
      )}
    </>
  );
}

interface CandidateTableProps {
  readonly advice: ShownAdvice;
  readonly selected: number | null;
  /** The limits in effect now; null before their replay. */
  readonly inEffect: ShownCandidate | null;
  readonly onChoose: (candidate: number) => void;
}

const goalCell = (meetsGoal: boolean) => (
  <span class={meetsGoal ? "allowed" : "denied"}>{meetsGoal ? "met" : "not met"}</span>
);

function CandidateTable({ advice, selected, inEffect, onChoose }: CandidateTableProps) {
  const name = useId();
  const { candidates, recommendation } = advice;
  const recommended = recommendation.kind === "recommended" ? recommendation.candidate : null;
  const limitCell = (candidate: ShownCandidate) => {
    const line = limitsLine(candidate.limits);
    if (candidate === inEffect) return <>In effect now: {line}</>;
    const index = candidates.indexOf(candidate);
    return (
      <label class="pick">
        <input type="radio" name={name} checked={index === selected} onChange={() => onChoose(index)} />
        <span>
          {line} {index === recommended && <span class="badge allowed">recommended</span>}
        </span>
      </label>
    );
  };
  const columns: readonly Column<ShownCandidate>[] = [
    { title: "Limit", cell: limitCell },
    numberColumn(
      "Denied requests",
      ({ deniedShare }) => deniedShare.value,
      ({ deniedShare }) => shareEstimateText(deniedShare),
    ),
    numberColumn(
      "Denied keys",
      ({ deniedKeyShare }) => deniedKeyShare.value,
      ({ deniedKeyShare }) => shareEstimateText(deniedKeyShare),
    ),
    numberColumn(
      "Denied keys of 10+ requests",
      ({ deniedActiveKeyShare: share }) => share?.value ?? 0,
      ({ deniedActiveKeyShare: share }) => (share === null ? "–" : shareEstimateText(share)),
    ),
    numberColumn(
      "Worst second",
      ({ worstBurst }) => worstBurst.value,
      ({ worstBurst }) => countEstimateText(worstBurst),
    ),
    { title: "Goal", cell: ({ meetsGoal }) => goalCell(meetsGoal) },
  ];
  return (
    <div class="candidates">
      <Table
        caption="Candidates"
        columns={columns}
        rows={inEffect === null ? candidates : [inEffect, ...candidates]}
        keyOf={(candidate) => candidates.indexOf(candidate)}
      />
    </div>
  );
}

interface TryLimitProps {
  /** The candidate with the limit that the advisor found. */
  readonly candidate: ShownCandidate;
  /** The units per window at the position of the slider. */
  readonly units: number;
  /** The candidate with the limit of the slider. While a replay runs, it has the limit of an earlier position. */
  readonly shown: ShownCandidate;
  readonly isRunning: boolean;
  /** The recommendation has the button for this limit. */
  readonly isRecommended: boolean;
  readonly onMove: (units: number) => void;
  readonly onUse: (limits: readonly FullLimit[]) => void;
  /** The limits of the candidate, with the units of the slider. */
  readonly limits: readonly FullLimit[];
}

function TryLimit(props: TryLimitProps) {
  const { candidate, units, shown, isRunning, isRecommended: isUsedAbove, onMove, onUse, limits } = props;
  const id = useId();
  const [first] = candidate.limits;
  if (first === undefined) return null;
  const steps = stepsAround(first.limit);
  const unit = `requests per ${windowText(first.windowMs)}`;
  return (
    <section class="card try" aria-labelledby={`${id}-title`}>
      <h2 id={`${id}-title`}>Selected: {limitsLine(limits)}</h2>
      <div class="field">
        <label for={id}>Limit, in {unit}</label>
        <input
          id={id}
          type="range"
          min={0}
          max={steps.length - 1}
          value={nearestStep(steps, units)}
          aria-valuetext={`${numberText(units)} ${unit}`}
          onInput={({ currentTarget: { value } }) => onMove(steps[Number(value)] ?? units)}
        />
      </div>
      <dl class="numbers" aria-busy={isRunning}>
        <dt>Denied requests</dt>
        <dd>{shareEstimateText(shown.deniedShare)}</dd>
        <dt>Denied keys</dt>
        <dd>{shareEstimateText(shown.deniedKeyShare)}</dd>
        <dt>Worst second</dt>
        <dd>{countEstimateText(shown.worstBurst)} requests</dd>
        <dt>Goal</dt>
        <dd>{goalCell(shown.meetsGoal)}</dd>
      </dl>
      <div class="row">
        {may("write") && !isUsedAbove && (
          <button type="button" class="primary" onClick={() => onUse(limits)}>
            Use the selected limit
          </button>
        )}
        {units !== first.limit && (
          <button type="button" class="quiet" onClick={() => onMove(first.limit)}>
            Back to {numberText(first.limit)}
          </button>
        )}
      </div>
    </section>
  );
}

function Outliers({ policy, outliers }: { readonly policy: string; readonly outliers: readonly DeniedKey[] }) {
  const keyCell = ({ key }: DeniedKey) => (
    <a class="id" href={hrefOf("keys", { policy, id: key })}>
      {keyName(policy, key)}
    </a>
  );
  const columns: readonly Column<DeniedKey>[] = [
    { title: "Key", cell: keyCell },
    numberColumn(
      "Requests",
      ({ requests }) => requests,
      ({ requests, shareOfRequests }) => `${numberText(requests)} (${shareText(shareOfRequests)})`,
    ),
    numberColumn("Denied", ({ denied }) => denied),
    numberColumn(
      "Longest denied",
      ({ longestDeniedMs }) => longestDeniedMs,
      ({ longestDeniedMs }) => waitText(longestDeniedMs),
    ),
  ];
  return (
    <section class="card" aria-label="Keys that would be denied most">
      <h2>Keys that would be denied most</h2>
      {outliers.length === 0 ? (
        <p class="dim">No sampled key would be denied.</p>
      ) : (
        <Table caption="Denials by key" columns={columns} rows={outliers} keyOf={({ key }) => key} />
      )}
    </section>
  );
}
