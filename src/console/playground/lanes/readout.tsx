/** The text below a plot: why a denial was denied, or the account of the client at the cursor. */
import { computed, signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { numberText } from "../../app/parts/text.ts";
import { causesOf, type LimitCause } from "../model/causes.ts";
import { lanesOf } from "../model/lanes.ts";
import { chosenDenial, scenario } from "../page-state.ts";
import { type LaneRun, neverMs } from "../model/scenario.ts";
import { type LimitAt, limitsAt } from "./explain.ts";
import { limitLabels } from "./lane-text.ts";
import { followedKey, shownCursorMs } from "./plots.ts";
import { axisTimeText } from "./time-axis.tsx";

const lanes = computed(() => lanesOf(scenario.value).lanes);

/** The denial that is explained, with its causes. */
export const explained = signal<{
  readonly run: LaneRun;
  readonly row: number;
  readonly causes: readonly LimitCause[];
} | null>(null);

/** A run of more rows is explained when the pointer rests, because the engine decides all its requests once more. */
const fewRows = 10_000;
const pauseMs = 80;

/** Calls a function after a rest, or at once for short runs. */
function rested(run: LaneRun, work: () => void): () => void {
  if (run.atMs.length <= fewRows) {
    work();
    return () => {};
  }
  const timer = setTimeout(work, pauseMs);
  return () => clearTimeout(timer);
}

export function Readout({ run }: { readonly run: LaneRun }) {
  const chosen = chosenDenial.value?.lane === run.lane ? chosenDenial.value.row : null;
  return (
    <div class="pg-readout" aria-live="polite">
      {chosen === null || chosen >= run.atMs.length ? <Account run={run} /> : <Denial run={run} row={chosen} />}
    </div>
  );
}

function Account({ run }: { readonly run: LaneRun }) {
  const at = shownCursorMs.value;
  const key = followedKey.value;
  const [limits, setLimits] = useState<readonly LimitAt[]>([]);
  useEffect(() => {
    if (at === null) return undefined;
    const lane = lanes.value.find((each) => each.lane === run.lane);
    return rested(run, () => setLimits(limitsAt(run, lane?.limits ?? [], key, at)));
  }, [run, key, at]);
  if (at === null) {
    return <p class="hint">Point at a denial, or move the time, to see what counts.</p>;
  }
  const labels = limitLabels(run.limits);
  const client = run.keys.length > 1 ? `, ${run.keys[key] ?? ""}` : "";
  return (
    <>
      {limits.map(({ name, used, remaining, sentence }, index) => (
        <p key={name}>
          <b>
            {axisTimeText(at)}
            {client}
            {limits.length > 1 ? ` – ${labels[index] ?? ""}` : ""}: {numberText(used)} used, {numberText(remaining)}{" "}
            remaining.
          </b>{" "}
          {sentence}
        </p>
      ))}
    </>
  );
}

function Denial({ run, row }: { readonly run: LaneRun; readonly row: number }) {
  useEffect(() => {
    const lane = lanes.value.find((each) => each.lane === run.lane);
    if (lane === undefined) return undefined;
    return rested(run, () => {
      explained.value = { run, row, causes: causesOf(run, lane, row) };
    });
  }, [run, row]);
  const shown = explained.value;
  const causes = shown?.run === run && shown.row === row ? shown.causes : [];
  const client = run.keys.length > 1 ? ` of ${run.keys[run.key[row] ?? 0] ?? ""}` : "";
  return (
    <>
      <p>
        <b class="denied">
          Denied at {axisTimeText(run.atMs[row] ?? 0)}
          {client}
        </b>
        {causes.map((cause) => (
          <Cause key={cause.limit} run={run} cause={cause} />
        ))}
      </p>
    </>
  );
}

function Cause({ run, cause }: { readonly run: LaneRun; readonly cause: LimitCause }) {
  const { limit, sentence, counting, clearsMs } = cause;
  const rows = counting.reduce((sum, part) => sum + part.rows.length, 0);
  const [first, last] = [counting.at(-1)?.rows[0], counting[0]?.rows.at(-1)];
  const name = run.limits.length > 1 ? `${limitLabels(run.limits)[limit] ?? ""}: ` : "";
  const from = axisTimeText(run.atMs[first ?? 0] ?? 0);
  const to = axisTimeText(run.atMs[last ?? 0] ?? 0);
  return (
    <span class="pg-cause">
      {name}
      {sentence}{" "}
      {rows > 0 && (
        <>
          Cause: {numberText(rows)} earlier {rows === 1 ? "request" : "requests"}, marked, from {from} to {to}.{" "}
        </>
      )}
      {clearsMs === neverMs ? "It never fits." : `It fits at ${axisTimeText(clearsMs)}.`}
    </span>
  );
}
