/** Moves the limit of the selected candidate, and shows its effect at once. */
import { useId } from "preact/hooks";
import type { FullLimit } from "../api/answers.ts";
import { may } from "../shell/session.ts";
import { numberText, windowText } from "../parts/text.ts";
import type { ShownCandidate } from "../replay/messages.ts";
import { goalCell } from "./candidate-table.tsx";
import { nearestStep, stepsAround } from "./limit-steps.ts";
import { countEstimateText, limitsLine, shareEstimateText } from "./texts.ts";

interface TryLimitProps {
  /** As the advisor found it. */
  readonly candidate: ShownCandidate;
  /** The units per window that the slider is at. */
  readonly units: number;
  /** With the limit of the slider; of an earlier place of the slider while the replay runs. */
  readonly shown: ShownCandidate;
  readonly isRunning: boolean;
  readonly onMove: (units: number) => void;
  readonly onUse: (limits: readonly FullLimit[]) => void;
  /** With the limit of the slider. */
  readonly limits: readonly FullLimit[];
}

export function TryLimit(props: TryLimitProps) {
  const { candidate, units, shown, isRunning, onMove, onUse, limits } = props;
  const id = useId();
  const [first] = candidate.limits;
  if (first === undefined) return null;
  const steps = stepsAround(first.limit);
  const unit = `requests per ${windowText(first.windowMs)}`;
  return (
    <section class="card try" aria-labelledby={`${id}-title`}>
      <h2 id={`${id}-title`}>{limitsLine(limits)}</h2>
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
        <Numbers candidate={shown} />
      </dl>
      <div class="row">
        {may("write") && (
          <button type="button" class="primary" onClick={() => onUse(limits)}>
            Use this limit
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

const Numbers = ({ candidate }: { readonly candidate: ShownCandidate }) => (
  <>
    <dt>Denied requests</dt>
    <dd>{shareEstimateText(candidate.deniedShare)}</dd>
    <dt>Denied keys</dt>
    <dd>{shareEstimateText(candidate.deniedKeyShare)}</dd>
    <dt>Worst second</dt>
    <dd>{countEstimateText(candidate.worstBurst)} requests</dd>
    <dt>Goal</dt>
    <dd>{goalCell(candidate.meetsGoal)}</dd>
  </>
);
