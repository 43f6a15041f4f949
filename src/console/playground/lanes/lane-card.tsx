/** One lane: what its strategy does, what it allowed and denied, its plot, and the same as a table. */
import { useState } from "preact/hooks";
import { numberText } from "../../app/parts/text.ts";
import { chosenDenial, invalidFields, limitsLabel, markedLanes } from "../page-state.ts";
import type { LaneRun } from "../model/scenario.ts";
import { nextDenial } from "./lane-columns.ts";
import { LanePlot } from "./lane-plot.tsx";
import { summaryText } from "./lane-text.ts";
import { LaneTable } from "./lane-table.tsx";
import { Readout } from "./readout.tsx";
import { laneText } from "./strategy-texts.ts";
import { BoundHint, WorstBursts } from "./worst-bursts.tsx";
import { WorstGauge } from "./worst-gauge.tsx";

export function LaneCard({ run }: { readonly run: LaneRun }) {
  const [isTable, setIsTable] = useState(false);
  const { title, text } = laneText(run);
  const id = `lane-${run.lane}`;
  return (
    <article class="card pg-lane" aria-labelledby={id}>
      <div class="pg-lane-grid">
        <div class="pg-lane-about">
          <h2 id={id}>
            {title} {run.lane === "written" && title !== "As written" && <Written />}
          </h2>
          <Counts run={run} />
          <WorstGauge run={run} />
          <BoundHint run={run} />
          <p class="dim pg-about">{text}</p>
        </div>
        <div class="pg-lane-plot">
          <LanePlot run={run} summary={summaryText(run)} />
          <Readout run={run} />
          <div class="row pg-actions">
            <MarkButton lane={run.lane} />
            <DenialButtons run={run} />
            <button type="button" aria-expanded={isTable} onClick={() => setIsTable(!isTable)}>
              Show as table
            </button>
          </div>
          {markedLanes.value.includes(run.lane) && <WorstBursts run={run} />}
        </div>
      </div>
      {isTable && <LaneTable run={run} title={title} />}
    </article>
  );
}

const Written = () => (
  <span class="badge">{invalidFields.value.includes(limitsLabel) ? "last valid limits" : "as written"}</span>
);

function Counts({ run: { summary, isCut } }: { readonly run: LaneRun }) {
  const { allowed, denied, delayed } = summary;
  return (
    <p class="pg-counts">
      <span class="allowed">
        <b>{numberText(allowed)}</b> allowed
      </span>{" "}
      <span class={denied === 0 ? "dim" : "denied"}>
        <b>{numberText(denied)}</b> denied
      </span>
      {delayed > 0 && (
        <>
          {" "}
          <span class="pg-delayed">
            <b>{numberText(delayed)}</b> of the allowed waited
          </span>
        </>
      )}
      {isCut && <span class="warning"> The run ended early: it has too many retries.</span>}
    </p>
  );
}

function MarkButton({ lane }: { readonly lane: string }) {
  const isMarked = markedLanes.value.includes(lane);
  const toggle = (): void => {
    const others = markedLanes.value.filter((each) => each !== lane);
    markedLanes.value = isMarked ? others : [...others, lane];
  };
  return (
    <button type="button" aria-pressed={isMarked} onClick={toggle}>
      Find the worst burst
    </button>
  );
}

/** Steps through the denials, for people without a pointer. */
function DenialButtons({ run }: { readonly run: LaneRun }) {
  if (run.summary.denied === 0) return null;
  const chosen = chosenDenial.value;
  const row = chosen?.lane === run.lane ? chosen.row : null;
  const previous = row === null ? -1 : nextDenial(run, row, -1);
  const next = nextDenial(run, row ?? -1, 1);
  const choose = (to: number): void => {
    chosenDenial.value = { lane: run.lane, row: to };
  };
  return (
    <span class="row" role="group" aria-label="Denials">
      <button type="button" disabled={previous === -1} onClick={() => choose(previous)}>
        ‹ Previous denial
      </button>
      <button type="button" disabled={next === -1} onClick={() => choose(next)}>
        {row === null ? "Explain a denial" : "Next denial"} ›
      </button>
    </span>
  );
}
