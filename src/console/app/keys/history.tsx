/** The requests of a key over the last day, and the button that records them from now on. */
import { useMemo, useState } from "preact/hooks";
import type { AuditEntryView, KeyHistory, PolicyView, RecordingView } from "../../../admin/wire.ts";
import { readChanges, useChanges } from "../api/changes.ts";
import { call, read } from "../api/client.ts";
import { usePolled } from "../api/poll.ts";
import { spans, unitOf } from "../overview/spans.ts";
import { lineLooks, marksOf, useRuleChanges } from "../overview/traffic-plot.tsx";
import { useAction } from "../parts/action.ts";
import { CountDown } from "../parts/count-down.tsx";
import { PressedButtons } from "../parts/fields.tsx";
import { Reading } from "../parts/notice.tsx";
import { TimePlot } from "../parts/plot.tsx";
import { timeText } from "../parts/text.ts";
import { replaceQuery, route } from "../shell/route.ts";
import { may } from "../shell/session.ts";
import { showProblem } from "../shell/toasts.tsx";
import { basisText, fittingSpan, historyOf, historySpans, historyPeriod, totalText } from "./history-text.ts";

const day = spans.find(({ lengthMs }) => lengthMs === 86_400_000) ?? spans[0];
/** A read of a sampled key decodes the samples of a day, so it is not more frequent. */
const pauseMs = 10_000;

interface HistoryProps {
  readonly policy: PolicyView;
  readonly id: string;
}

export function KeyRequests({ policy, id }: HistoryProps) {
  const path = `keys/${encodeURIComponent(policy.name)}/${id}`;
  const history = usePolled((abort) => read<KeyHistory>(`${path}/history?step=1m`, abort), pauseMs);
  const changes = useRuleChanges(day);
  useChanges(history.readAgain);
  return (
    <section class="card" aria-label="Requests of this key">
      <h2>Requests of this key</h2>
      <Reading of={history} what="the requests of the key">
        {(value) => (
          <Shown
            {...{ policy, id, path }}
            history={value}
            changes={changes.value.value ?? []}
            onChange={history.readAgain}
          />
        )}
      </Reading>
    </section>
  );
}

interface ShownProps extends HistoryProps {
  /** The path of the key in the API. */
  readonly path: string;
  readonly history: KeyHistory;
  readonly changes: readonly AuditEntryView[];
  readonly onChange: () => void;
}

function Shown({ policy, id, path, history, changes, onChange }: ShownProps) {
  const { query } = route.value;
  // The span stays when the requests become older than it: only the operator changes it.
  const [fitting] = useState(() => fittingSpan(history));
  const span = historySpans.find(({ name }) => name === query.get("span")) ?? fitting;
  const { data, totals } = useMemo(() => {
    const { data: counted, totals: sums } = historyOf(history, span);
    const series = counted.series.map(({ line, values }) => ({ ...lineLooks[line], values }));
    return { data: { ...counted, series }, totals: sums };
  }, [history, span]);
  const period = historyPeriod(history, span);
  const marks = useMemo(() => {
    const own = changes.filter((entry) => (entry.keyId ?? id) === id);
    return marksOf(own, policy.name, [policy]);
  }, [changes, policy, id]);
  return (
    <>
      {(history.sample !== null || history.recordings.length > 0) && (
        <>
          <div class="row history">
            <PressedButtons
              label="Span"
              options={historySpans.map(({ name, label }) => [name, label])}
              value={span.name}
              onChange={(name) => replaceQuery({ span: name })}
            />
            <strong>{totalText(totals, period)}</strong>
          </div>
          <TimePlot
            title={`Requests ${unitOf(data.stepMs)}`}
            summary={totalText(totals, period)}
            totalsOf={period}
            {...{ data, marks }}
          />
        </>
      )}
      <p class="hint">{basisText(history)}</p>
      {(history.sample === null || history.recording !== null) && (
        <Recorder recording={history.recording} {...{ path, onChange }} />
      )}
    </>
  );
}

interface RecorderProps extends Pick<ShownProps, "path" | "onChange"> {
  readonly recording: RecordingView | null;
}

function Recorder({ path, recording, onChange }: RecorderProps) {
  const { run, isRunning } = useAction(async () => {
    const method = recording === null ? "PUT" : "DELETE";
    await call(method, `${path}/recording`).then(readChanges, showProblem);
    onChange();
  });
  return (
    <p class="row">
      {recording !== null && (
        <span>
          Recording until {timeText(recording.until)} (<CountDown until={recording.until} endless="no end" />)
        </span>
      )}
      {may("write") ? (
        <button type="button" disabled={isRunning} onClick={() => void run()}>
          {recording === null ? "Record this key for an hour" : "Stop"}
        </button>
      ) : (
        recording === null && <span class="hint">To record the key needs the right “write”.</span>
      )}
      {recording === null && (
        <span class="hint">Counts each request from now on. The audit log names who records it.</span>
      )}
    </p>
  );
}
