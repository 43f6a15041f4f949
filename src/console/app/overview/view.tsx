/** The view "Overview": how much is allowed and denied, by which policies, and what changed when. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { AuditEntryView, PolicyView, TopKeyList } from "../../../admin/wire.ts";
import { queryText, read } from "../api/client.ts";
import { type Polling, usePolled } from "../api/poll.ts";
import { now } from "../clock.ts";
import { Failure, Loading } from "../parts/notice.tsx";
import { replaceQuery, route } from "../shell/route.ts";
import "./overview.css";
import { factsOf, type HeadlineFacts } from "./headline-facts.ts";
import { Headline } from "./headline.tsx";
import { Latency, PolicyTable, Tiles, TopDenied, topDeniedId } from "./numbers.tsx";
import { OwnSpan } from "./own-span.tsx";
import { queryOfSpan, readerOf, spanOf, spans, type SpanTraffic, startOf, type TimeSpan } from "./spans.ts";
import { shownTraffic } from "./traffic.ts";
import { deniedHref, TrafficPlot, useRuleChanges } from "./traffic-plot.tsx";
import type { TimeRange } from "../parts/plot-data.ts";
import { usePolicies } from "../parts/policies.tsx";
import { PressedButtons, Select } from "../parts/fields.tsx";

export function OverviewView() {
  const { query } = route.value;
  // oxlint-disable-next-line react/exhaustive-deps -- only these parameters name a span
  const span = useMemo(() => spanOf(query), [query.get("span"), query.get("from"), query.get("to")]);
  const policy = query.get("policy");
  const reader = useMemo(() => readerOf(span), [span]);
  const { value, problem, readAgain } = usePolled(reader, span.pauseMs, [reader]);
  const policies = usePolicies();
  const changes = useRuleChanges(span);
  // The numbers of the previous span stay until those of the chosen one arrive.
  const [latest, setLatest] = useState<SpanTraffic | null>(null);
  useEffect(
    () =>
      value.subscribe((next) => {
        if (next !== null) setLatest(next);
      }),
    [value],
  );
  const facts = useMemo(() => latest && factsOf(latest.traffic, policy), [latest, policy]);
  const denying = policy ?? facts?.denying?.policy ?? facts?.dryRun?.policy ?? null;
  // Only configured policies have a list of keys.
  const topPolicy = policies.value.value?.find(({ name }) => name === denying)?.name ?? null;
  const counted = useRef<TimeRange | null>(null);
  counted.current = latest?.span === span ? countedRange(latest) : null;
  const top = usePolled((abort) => readTop(topPolicy, counted.current ?? rangeOf(span), abort), topPause(span), [
    topPolicy,
    span,
  ]);
  const hasAll = latest !== null && policies.value.value !== null;
  // If older numbers are shown, the frame of the page reports the failure.
  const failure = hasAll ? null : (problem.value ?? policies.problem.value);
  return (
    <section>
      <h1>Overview</h1>
      <a class="skip" href={`#${topDeniedId}`}>
        Skip to the top denied keys
      </a>
      <Choices span={span} policy={policy} policies={policies.value.value ?? []} />
      {failure !== null && <Failure problem={failure} onRetry={readAgain} />}
      <Shown
        span={span}
        spanTraffic={latest}
        policy={policy}
        policies={policies.value.value}
        changes={changes.value.value ?? []}
        facts={facts}
        topPolicy={topPolicy}
        top={top}
      />
    </section>
  );
}

/** The control plane reads the log of the whole span for each answer. */
const topPause = ({ pauseMs }: TimeSpan): number => Math.max(5_000, pauseMs);

const rangeOf = (span: TimeSpan): TimeRange => span.range ?? { fromMs: startOf(span), toMs: now() };

/** The period of the numbers that are shown. */
const countedRange = ({ span, traffic }: SpanTraffic): TimeRange => ({
  fromMs: traffic.countedFromMs,
  toMs: span.range?.toMs ?? Math.max(now(), traffic.toMs),
});

/** The keys that the policy denied most. The lists by the hour end now; `period` is exactly the range. */
async function readTop(policy: string | null, { fromMs, toMs }: TimeRange, abort: AbortSignal): Promise<TopKeyList> {
  const from = new Date(fromMs).toISOString();
  if (policy === null) return { policy: "", by: "denied", from, keys: [] };
  return read<TopKeyList>(
    `top${queryText({ policy, by: "denied", limit: 10, from, to: new Date(toMs).toISOString() })}`,
    abort,
  );
}

function Choices({
  span,
  policy,
  policies,
}: {
  readonly span: TimeSpan;
  readonly policy: string | null;
  readonly policies: readonly PolicyView[];
}) {
  const names = new Set([...policies.map(({ name }) => name), ...(policy === null ? [] : [policy])]);
  return (
    <div class="row choices">
      <PressedButtons
        label="Span"
        options={spans.map(({ name, label }) => [name ?? "", label])}
        value={span.name}
        onChange={(chosen) => replaceQuery(queryOfSpan(spans.find(({ name }) => name === chosen) ?? spans[0]))}
      />
      <OwnSpan span={span} />
      <div class="row">
        <Select
          label="Policy"
          value={policy ?? ""}
          options={[["", "All policies"], ...names]}
          onChange={(chosen) => replaceQuery({ policy: chosen })}
        />
      </div>
    </div>
  );
}

interface NumbersProps {
  readonly span: TimeSpan;
  readonly spanTraffic: SpanTraffic | null;
  readonly policy: string | null;
  readonly policies: readonly PolicyView[] | null;
  readonly changes: readonly AuditEntryView[];
  readonly facts: HeadlineFacts | null;
  /** The policy whose keys are listed; null when no policy has denied anything. */
  readonly topPolicy: string | null;
  readonly top: Polling<TopKeyList>;
}

/** Numbers and plot take up their space before there is traffic, so that nothing moves when it arrives. */
function Shown({ span, spanTraffic, policy, policies, changes, facts, topPolicy, top }: NumbersProps) {
  const traffic = spanTraffic?.traffic ?? null;
  const chosen = useMemo(() => (traffic === null ? null : shownTraffic(traffic, policy)), [traffic, policy]);
  const shownRange = spanTraffic === null ? rangeOf(span) : countedRange(spanTraffic);
  return (
    <>
      <Headline
        spanTraffic={spanTraffic}
        facts={facts}
        policy={policy}
        policies={policies ?? []}
        top={top.value.value}
        denialsHref={deniedHref(shownRange, policy)}
      />
      <div class="card plot-card">
        <TrafficPlot {...{ span, traffic, chosen, policy, policies, changes }} />
        {span.range === null && chosen?.numbers.decisions === 0 && traffic?.unknownUntilMs === null && <NoTraffic />}
        <p class="hint">
          Click a time, or drag over a range, to see what was denied then. {hintOf(spanTraffic?.span ?? span)}
        </p>
      </div>
      <Tiles traffic={traffic} chosen={chosen} policy={policy} />
      {traffic === null || chosen === null || policies === null ? (
        <Loading what="the policies" />
      ) : (
        <>
          <PolicyTable traffic={traffic} policies={policies} />
          <div class="grid lower">
            <TopDenied policy={topPolicy} policies={policies} traffic={traffic} top={top} />
            <Latency boundsMs={traffic.boundsMs} tally={chosen.total} />
          </div>
        </>
      )}
    </>
  );
}

function hintOf({ stepMs, range }: TimeSpan): string {
  if (range !== null) return "";
  return stepMs === null ? liveHint : "The last step is not over yet.";
}

const liveHint =
  "Each rate is the mean of the last 10 seconds. Pale parts are means of a minute or of a pause of this page, which do not show when a change took effect. In gaps, this page could not read.";

/** `npm start` serves the console on `admin.localhost`, and the site that it limits on `localhost`. */
function NoTraffic() {
  const { hostname, port } = location;
  const isLocal = hostname === "admin.localhost";
  return (
    <div class="no-traffic">
      <p>
        <strong>No traffic yet.</strong> Requests appear here a few seconds after Headgate has decided them.
      </p>
      {isLocal && <code>curl -i http://localhost:{port}/</code>}
    </div>
  );
}
