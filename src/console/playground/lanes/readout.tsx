/** The text below a plot: why a denial was denied, or the account of the client at the cursor. */
import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { limitSentence } from "../../../strategies/index.ts";
import { countOf, numberText } from "../../app/parts/text.ts";
import { causesOf, type LimitCause } from "../model/causes.ts";
import { firstRowAt, neverMs } from "../model/columns.ts";
import { ClientReplay, type LaneRun } from "../model/run.ts";
import { chosenDenial } from "../page-state.ts";
import { limitLabels } from "./lane-text.ts";
import { followedKey, shownCursorMs } from "./plots.ts";
import { axisTimeText } from "./time-axis.tsx";

/** The denial that is explained, with its causes. */
export const explained = signal<{
  readonly run: LaneRun;
  readonly row: number;
  readonly causes: readonly LimitCause[];
} | null>(null);

/**
 * In a run with more rows, a denial is explained only when the pointer rests: the engine decides all requests once
 * more.
 */
const fewRows = 10_000;
const pauseMs = 80;

/** Calls a function at once for a short run, and otherwise when the pointer rests. */
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
  const [limits, setLimits] = useState<ReturnType<typeof limitsAt>>([]);
  useEffect(() => {
    if (at === null) return undefined;
    return rested(run, () => setLimits(limitsAt(run, key, at)));
  }, [run, key, at]);
  if (at === null) {
    return <p class="hint">Point at a denial, or move the time, to see what counts.</p>;
  }
  const labels = limitLabels(run.limits);
  const client = run.keys.length > 1 ? `, ${run.keys[key] ?? ""}` : "";
  return limits.map(({ name, used, remaining, sentence }, index) => (
    <p key={name}>
      <b>
        {axisTimeText(at)}
        {client}
        {limits.length > 1 ? ` – ${labels[index] ?? ""}` : ""}: {numberText(used)} used, {numberText(remaining)}{" "}
        remaining.
      </b>{" "}
      {sentence}
    </p>
  ));
}

/** The units of a client at an instant, after the requests of the instant. */
function limitsAt(run: LaneRun, key: number, atMs: number) {
  const client = new ClientReplay(run, key);
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
  useEffect(
    () =>
      rested(run, () => {
        explained.value = { run, row, causes: causesOf(run, row) };
      }),
    [run, row],
  );
  const shown = explained.value;
  const causes = shown?.run === run && shown.row === row ? shown.causes : [];
  const client = run.keys.length > 1 ? ` of ${run.keys[run.key[row] ?? 0] ?? ""}` : "";
  return (
    <p>
      <b class="denied">
        Denied at {axisTimeText(run.atMs[row] ?? 0)}
        {client}
      </b>
      {causes.map((cause) => (
        <Cause key={cause.limit} run={run} cause={cause} />
      ))}
    </p>
  );
}

function Cause({ run, cause }: { readonly run: LaneRun; readonly cause: LimitCause }) {
  const { limit, sentence, rows, clearsMs } = cause;
  const timeOf = (row: number | undefined): string => axisTimeText(run.atMs[row ?? 0] ?? 0);
  return (
    <span class="pg-cause">
      {run.limits.length > 1 && `${limitLabels(run.limits)[limit] ?? ""}: `}
      {sentence}{" "}
      {rows.length > 0 && (
        <>
          Cause: {countOf(rows.length, "earlier request")}, marked, from {timeOf(rows[0])} to {timeOf(rows.at(-1))}
          .{" "}
        </>
      )}
      {clearsMs === neverMs ? "It never fits." : `It fits at ${axisTimeText(clearsMs)}.`}
    </span>
  );
}
