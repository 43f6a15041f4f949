/** The plot of requests over time, with the changes of rules as marks. A click opens what was denied then. */
import { computed } from "@preact/signals";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { AuditEntryView, AuditPage, PolicyView } from "../../../admin/wire.ts";
import { useChanges } from "../api/changes.ts";
import { queryText, read } from "../api/client.ts";
import { type Polling, staleSinceMs, usePolled } from "../api/poll.ts";
import { now } from "../clock.ts";
import type { PlotData, PlotMark, PlotSeries, TimeRange } from "../parts/plot-data.ts";
import { TimePlot } from "../parts/plot.tsx";
import { groupsOf, groupText } from "../parts/entry-groups.ts";
import { instantText, numberText, percentText, shortId } from "../parts/text.ts";
import { hrefOf } from "../shell/route.ts";
import { knownKey } from "../keys/known-keys.ts";
import { labelsOf } from "./change-label.ts";
import { shownKey } from "./headline-facts.ts";
import { startOf, type TimeSpan, unitOf } from "./spans.ts";
import { type CountedTraffic, type Line, lines, type Numbers, type ShownTraffic } from "./traffic.ts";

interface TrafficPlotProps {
  readonly span: TimeSpan;
  /** Null before the first answer. */
  readonly traffic: CountedTraffic | null;
  /** The traffic of the policy; of all policies together when the policy is null. */
  readonly chosen: ShownTraffic | null;
  readonly policy: string | null;
  readonly policies: readonly PolicyView[] | null;
  readonly changes: readonly AuditEntryView[];
}

export function TrafficPlot({ span, traffic, chosen, policy, policies, changes }: TrafficPlotProps) {
  const marks = useMemo(
    () => computed(() => marksOf(changes, policy, policies ?? [], keyIn)),
    [changes, policy, policies],
  ).value;
  const known = useMemo(() => plotDataOf(traffic, chosen), [traffic, chosen]);
  const data = useGap(known);
  const unit = unitOf(traffic === null ? span.stepMs : traffic.stepMs);
  return (
    <TimePlot
      title={`Requests ${unit}${policy === null ? "" : ` of policy ${policy}`}`}
      summary={chosen === null ? "Loading." : summaryOf(chosen.numbers)}
      data={data}
      marks={marks}
      linkOf={(range) => deniedHref(range, policy)}
    />
  );
}

const gapPauseMs = 2_000;

/** While reading live traffic fails, its time goes on with a gap. */
function useGap(known: PlotData): PlotData {
  const hasGap = staleSinceMs.value !== null && known.stepMs === null && known.times.length > 0;
  const [nowMs, setNowMs] = useState(0);
  useEffect(() => {
    if (!hasGap) return undefined;
    const goOn = (): void => setNowMs(now());
    goOn();
    const timer = setInterval(goOn, gapPauseMs);
    return () => clearInterval(timer);
  }, [hasGap]);
  return useMemo(() => (hasGap ? withGapUntil(nowMs, known) : known), [hasGap, nowMs, known]);
}

/** Live traffic whose time goes on until an instant, without values. */
export function withGapUntil(toMs: number, data: PlotData): PlotData {
  if (toMs <= data.toMs) return data;
  const series = data.series.map((each) => ({ ...each, values: [...each.values, null] }));
  return { ...data, fromMs: toMs - (data.toMs - data.fromMs), toMs, times: [...data.times, toMs], series };
}

/** The address of what was denied in a range. */
export const deniedHref = ({ fromMs, toMs }: TimeRange, policy: string | null): string =>
  `./denied${queryText({ from: fromMs, to: toMs, policy: policy ?? "" })}`;

const summaryOf = ({ allowed, denied, decisions }: Numbers): string =>
  `Allowed ${numberText(allowed)}, denied ${numberText(denied)}, which is ${percentText(denied, decisions)} of all requests.`;

export const lineLooks = {
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

/** A long pause is enough, because every change also starts a read. */
const changesPauseMs = 300_000;

/** The changes of rules in the span. */
export function useRuleChanges(span: TimeSpan): Polling<readonly AuditEntryView[]> {
  const changes = usePolled((abort) => readChanges(span, abort), changesPauseMs, [span]);
  useChanges(changes.readAgain);
  return changes;
}

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

/** Actions that change neither a rule nor the usage of a key. */
const unmarked: ReadonlySet<AuditEntryView["action"]> = new Set(["reveal", "record", "stop-recording"]);

/** The plain key if it is known, without revealing it, or the beginning of its id. */
function keyIn({ policy, keyId }: AuditEntryView, policies: readonly PolicyView[]): string | null {
  if (policy === null || keyId === null) return null;
  const own = policies.find(({ name }) => name === policy);
  const label = knownKey(policy, keyId)?.label ?? shortId(keyId);
  return own === undefined ? label : shownKey(label, own);
}

/**
 * @param policy null for the changes of all policies
 * @param keyOf the key that the label of a change names; absent on the page of a key
 */
export const marksOf = (
  entries: readonly AuditEntryView[],
  policy: string | null,
  policies: readonly PolicyView[],
  keyOf: typeof keyIn = () => null,
): PlotMark[] =>
  groupsOf(
    entries
      .filter(({ action }) => !unmarked.has(action))
      .filter((entry) => policy === null || entry.policy === null || entry.policy === policy),
  ).map((group) => {
    const [entry] = group;
    return {
      atMs: Date.parse(entry.at),
      ...labelsOf(entry, policies, group.length === 1 ? keyOf(entry, policies) : null),
      text: `${instantText(entry.at)}: ${entry.actor} ${groupText(group)}`,
      href: hrefOf("audit", { seq: entry.seq }),
    };
  });
