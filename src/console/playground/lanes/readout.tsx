/** The text below a plot: why a denial was denied, or the account of the client at the cursor. */
import { computed, signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { type Limit, limitSentence } from "../../../strategies/index.ts";
import { numberText } from "../../app/parts/text.ts";
import { causesOf, type LimitCause } from "../model/causes.ts";
import { lanesOf } from "../model/lanes.ts";
import { ClientReplay } from "../model/run.ts";
import { chosenDenial, scenario } from "../page-state.ts";
import { type LaneRun, neverMs } from "../model/scenario.ts";
import { firstRowAt } from "../model/columns.ts";
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

interface LimitAt {
  readonly name: string;
  readonly used: number;
  readonly remaining: number;
  readonly sentence: string;
}

/** The units of a client at an instant, after the requests of the instant. */
function limitsAt(run: LaneRun, limits: readonly Limit[], key: number, atMs: number): readonly LimitAt[] {
  const client = new ClientReplay(run, limits, key);
  client.decideUntil(firstRowAt(run, atMs + 1));
  const accounts = client.account(atMs);
  return client.look(0, atMs).limits.flatMap((limit, index) => {
    const account = accounts[index];
    if (account === undefined) return [];
    const { name, remaining } = limit;
    return [{ name, remaining, used: account.used, sentence: limitSentence(limit, account) }];
  });
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
