/** The worst burst of a lane beside the limit and the documented bound, on a scale that all lanes share. */
import { numberText } from "../../app/parts/text.ts";
import type { LaneLimit, LaneRun, WorstBurst } from "../model/scenario.ts";
import { visibleRuns } from "./plots.ts";
import { burstText } from "./lane-text.ts";

export const WorstGauge = ({ run }: { readonly run: LaneRun }) => (
  <>
    {run.limits.map((limit, index) => {
      const burst = run.summary.worstBursts[index] ?? null;
      return <Gauge key={limit.name} index={index} limit={limit} burst={burst} />;
    })}
  </>
);

interface GaugeProps {
  readonly index: number;
  readonly limit: LaneLimit;
  readonly burst: WorstBurst | null;
}

function Gauge({ index, limit, burst }: GaugeProps) {
  const units = burst?.units ?? 0;
  const most = Math.max(
    1,
    ...visibleRuns.value.map(({ limits, summary }) =>
      Math.max(limits[index]?.mostPerWindow ?? 0, summary.worstBursts[index]?.units ?? 0),
    ),
  );
  const percent = (value: number): string => `${((100 * value) / most).toFixed(2)}%`;
  const isOver = units > limit.limit;
  return (
    <div class="pg-gauge">
      <p>
        Worst burst: <b class={isOver ? "denied" : ""}>{burstText(limit, units)}</b>
        <span class="dim"> – bound {numberText(limit.mostPerWindow)}</span>
      </p>
      <div class="pg-gauge-bar" aria-hidden="true">
        <span class={isOver ? "pg-fill pg-over" : "pg-fill"} style={{ width: percent(units) }} />
        <span class="pg-bound" style={{ left: percent(limit.mostPerWindow) }} />
        <span class="pg-limit" style={{ left: percent(limit.limit) }} />
      </div>
    </div>
  );
}
