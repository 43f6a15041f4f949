/** The view "Overview": how much is allowed and denied, by which policies, and what changed when. */
import { useEffect, useMemo, useState } from "preact/hooks";
import type { AuditEntryView, PolicyView } from "../../../admin/wire.ts";
import { usePolled } from "../api/poll.ts";
import { now } from "../clock.ts";
import { Failure, Loading } from "../parts/notice.tsx";
import { replaceQuery, route } from "../shell/route.ts";
import "./overview.css";
import { countedPeriod, factsOf, type HeadlineFacts } from "./headline-facts.ts";
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
  const reader = useMemo(() => readerOf(span, policy), [span, policy]);
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
  const hasAll = latest !== null && policies.value.value !== null;
  // If older numbers are shown, the frame of the page reports the failure.
  const failure = hasAll ? null : (problem.value ?? policies.problem.value);
  return (
    <section>
      <a class="skip" href={`#${topDeniedId}`}>
        Skip to the top denied keys
      </a>
      <div class="row overview-head">
        <h1>Overview</h1>
        <Choices span={span} policy={policy} policies={policies.value.value ?? []} />
      </div>
      {failure !== null && <Failure problem={failure} onRetry={readAgain} />}
      <Shown
        span={span}
        spanTraffic={latest}
        policy={policy}
        policies={policies.value.value}
        changes={changes.value.value ?? []}
        facts={facts}
      />
    </section>
  );
}

const rangeOf = (span: TimeSpan): TimeRange => span.range ?? { fromMs: startOf(span), toMs: now() };

/** The period of the numbers that are shown. */
const countedRange = ({ traffic }: SpanTraffic): TimeRange => ({ fromMs: traffic.countedFromMs, toMs: traffic.toMs });

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
    <>
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
    </>
  );
}

interface NumbersProps {
  readonly span: TimeSpan;
  readonly spanTraffic: SpanTraffic | null;
  readonly policy: string | null;
  readonly policies: readonly PolicyView[] | null;
  readonly changes: readonly AuditEntryView[];
  readonly facts: HeadlineFacts | null;
}

/** Numbers and plot take up their space before there is traffic, so that nothing moves when it arrives. */
function Shown({ span, spanTraffic, policy, policies, changes, facts }: NumbersProps) {
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
        denialsHref={deniedHref(shownRange, policy)}
      />
      <div class="card plot-card">
        <TrafficPlot {...{ span, traffic, chosen, policy, policies, changes }} />
        {span.range === null && chosen?.numbers.decisions === 0 && traffic?.unknownUntilMs === null && <NoTraffic />}
        <p class="hint">
          Click a time, or drag over a range, to see what was denied then. {hintOf(spanTraffic?.span ?? span)}
        </p>
      </div>
      <Tiles
        traffic={traffic}
        chosen={chosen}
        policy={policy}
        period={spanTraffic && countedPeriod(spanTraffic, policy, now())}
      />
      {spanTraffic === null || traffic === null || chosen === null || policies === null ? (
        <Loading what="the policies" />
      ) : (
        <>
          <PolicyTable traffic={traffic} policies={policies} endMs={spanTraffic.endMs} />
          <div class="grid lower">
            <TopDenied policy={policy} policies={policies} spanTraffic={spanTraffic} />
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

const liveHint = "Pale parts are means of a minute or of a pause of this page. In gaps, this page could not read.";

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
