/** The view "Overview": how much is allowed and denied, by which policies, and what changed when. */
import { useEffect, useMemo, useState } from "preact/hooks";
import type { AuditEntryView, AuditPage, PolicyView, TopKeyList } from "../../../admin/wire.ts";
import { useChanges } from "../api/changes.ts";
import { queryText, read } from "../api/client.ts";
import { type Polling, usePolled } from "../api/poll.ts";
import { now } from "../clock.ts";
import { Failure, Loading } from "../parts/notice.tsx";
import type { PlotData, PlotMark, PlotSeries, TimeRange } from "../parts/plot-data.ts";
import { TimePlot } from "../parts/plot.tsx";
import { changeText } from "../parts/rule-text.ts";
import { instantText, numberText, percentText } from "../parts/text.ts";
import { hrefOf, replaceQuery, route } from "../shell/route.ts";
import { changeLabel } from "./change-label.ts";
import "./overview.css";
import { factsOf, type HeadlineFacts } from "./headline-facts.ts";
import { Headline } from "./headline.tsx";
import { Latency, PolicyTable, Tiles, TopDenied, topDeniedId } from "./numbers.tsx";
import { OwnSpan } from "./own-span.tsx";
import { queryOfSpan, readerOf, spanOf, spans, type SpanTraffic, type TimeSpan, unitOf } from "./spans.ts";
import { type CountedTraffic, type Line, lines, type Numbers, shownTraffic, type ShownTraffic } from "./traffic.ts";
import { usePolicies } from "../parts/policies.tsx";
import { Select } from "../parts/fields.tsx";

/** A long pause is enough, because every change also starts a read. */
const changesPauseMs = 300_000;

export function OverviewView() {
  const { query } = route.value;
  // oxlint-disable-next-line react/exhaustive-deps -- only these parameters name a span
  const span = useMemo(() => spanOf(query), [query.get("span"), query.get("from"), query.get("to")]);
  const policy = query.get("policy");
  const reader = useMemo(() => readerOf(span), [span]);
  const { value, problem, readAgain } = usePolled(reader, span.pauseMs, [reader]);
  const policies = usePolicies();
  const changes = usePolled((abort) => readChanges(span, abort), changesPauseMs, [span]);
  useChanges(changes.readAgain);
  // The numbers of the previous span stay until those of the chosen one arrive.
  const [latest, setLatest] = useState<SpanTraffic | null>(null);
  useEffect(
    () =>
      value.subscribe((next) => {
        if (next !== null) setLatest(next);
      }),
    [value],
  );
  const facts = useMemo(() => latest && factsOf(latest.traffic, policy, now()), [latest, policy]);
  const denying = policy ?? facts?.denying?.policy ?? facts?.dryRun?.policy ?? null;
  // Only configured policies have a list of keys.
  const topPolicy = policies.value.value?.find(({ name }) => name === denying)?.name ?? null;
  const top = usePolled((abort) => readTop(topPolicy, span, abort), topPauseMs, [topPolicy, span]);
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

const topPauseMs = 5_000;

/** The keys that the policy denied most within the span. Lists end now. */
async function readTop(policy: string | null, span: TimeSpan, abort: AbortSignal): Promise<TopKeyList> {
  const from = new Date(startOf(span)).toISOString();
  if (policy === null) return { policy: "", by: "denied", from, keys: [] };
  return read<TopKeyList>(`top${queryText({ policy, by: "denied", limit: 10, from })}`, abort);
}

const startOf = ({ range, lengthMs }: TimeSpan): number => range?.fromMs ?? now() - lengthMs;

const pageSize = 200;
/** Older changes have no marks. */
const mostPages = 5;

/** Reads more than the span, because the clock of the browser may be ahead. The plot leaves out what is outside. */
async function readChanges(span: TimeSpan, abort: AbortSignal): Promise<readonly AuditEntryView[]> {
  const fromMs = startOf(span) - span.lengthMs;
  const entries: AuditEntryView[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < mostPages; page++) {
    const query = queryText({ limit: pageSize, cursor });
    // oxlint-disable-next-line no-await-in-loop -- a page has the cursor of the next
    const { entries: read_, next } = await read<AuditPage>(`audit${query}`, abort);
    entries.push(...read_);
    const oldest = read_.at(-1);
    if (next === null || oldest === undefined || Date.parse(oldest.at) < fromMs) break;
    cursor = next;
  }
  return entries.filter(({ at }) => Date.parse(at) >= fromMs);
}

/** @param policy null for the changes of all policies */
const marksOf = (
  entries: readonly AuditEntryView[],
  policy: string | null,
  policies: readonly PolicyView[],
): PlotMark[] =>
  entries
    .filter(({ action }) => action !== "reveal")
    .filter((entry) => policy === null || entry.policy === null || entry.policy === policy)
    .map((entry) => {
      const label = changeLabel(entry, policies);
      return {
        atMs: Date.parse(entry.at),
        label: entry.action === "expire" ? label : `${label} by ${entry.actor}`,
        shortLabel: label,
        text: `${instantText(entry.at)}: ${entry.actor} ${changeText(entry)}`,
        href: hrefOf("audit", { seq: entry.seq }),
      };
    });

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
      <div class="row" role="group" aria-label="Span">
        {spans.map((each) => (
          <button
            key={each.name}
            type="button"
            aria-pressed={each === span}
            onClick={() => replaceQuery(queryOfSpan(each))}
          >
            {each.label}
          </button>
        ))}
      </div>
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
  const marks = useMemo(() => marksOf(changes, policy, policies ?? []), [changes, policy, policies]);
  const data = useMemo(() => plotDataOf(traffic, chosen), [traffic, chosen]);
  const numbers = chosen?.numbers ?? null;
  const linkOf = ({ fromMs, toMs }: TimeRange): string => deniedHref({ fromMs, toMs }, policy);
  const shownRange = traffic ?? { fromMs: startOf(span), toMs: now() };
  return (
    <>
      <Headline
        spanTraffic={spanTraffic}
        facts={facts}
        policy={policy}
        policies={policies ?? []}
        top={top.value.value}
        denialsHref={linkOf(shownRange)}
      />
      <div class="card plot-card">
        <TimePlot
          title={`Requests ${unitOf(traffic === null ? span.stepMs : traffic.stepMs)}${policy === null ? "" : ` of policy ${policy}`}`}
          summary={numbers === null ? "Loading." : summaryOf(numbers)}
          data={data}
          marks={marks}
          linkOf={linkOf}
        />
        {numbers?.decisions === 0 && traffic?.unknownUntilMs === null && <NoTraffic />}
        <p class="hint">
          Click a time, or drag over a range, to see what was denied then.{" "}
          {(spanTraffic?.span ?? span).stepMs === null ? liveHint : "The last step is not over yet."}
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

/** The address of what was denied in a range. */
const deniedHref = ({ fromMs, toMs }: TimeRange, policy: string | null): string =>
  `./denied${queryText({ from: fromMs, to: toMs, policy: policy ?? "" })}`;

const liveHint =
  "Each rate is the mean of the last 10 seconds. Pale parts are means of a minute or of a pause of this page, which do not show when a change took effect. In gaps, this page could not read.";

const summaryOf = ({ allowed, denied, decisions }: Numbers): string =>
  `Allowed ${numberText(allowed)}, denied ${numberText(denied)}, which is ${percentText(denied, decisions)} of all requests.`;

const lineLooks = {
  allowed: { label: "Allowed", color: "--allowed" },
  denied: { label: "Denied", color: "--denied", isFilled: true },
  dryRunDenied: { label: "Would be denied (dry run)", color: "--warning" },
  fallback: { label: "Object unavailable", color: "--blocked" },
} as const satisfies Readonly<Record<Line, Omit<PlotSeries, "values">>>;

/** Lines of rare outcomes appear only once such an outcome has occurred. */
function plotDataOf(traffic: CountedTraffic | null, chosen: ShownTraffic | null): PlotData {
  if (traffic === null || chosen === null) {
    return { fromMs: 0, toMs: 1, times: [], stepMs: null, longSteps: [], series: [] };
  }
  const { fromMs, toMs, times, stepMs, longSteps } = traffic;
  const { numbers } = chosen;
  const series = lines
    .filter((line) => line === "allowed" || line === "denied" || numbers[line] > 0)
    .map((line) => ({ ...lineLooks[line], values: chosen.lines[line] }));
  return { fromMs, toMs, times, stepMs, longSteps, series };
}

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
