/**
 * The last 24 hours of a policy, or the last minutes of a key, as they would have been under a change, replayed from sampled
 * traffic.
 */
import { Failure, Reading } from "../parts/notice.tsx";
import { TimePlot } from "../parts/plot.tsx";
import { useTask } from "../replay/latest-task.ts";
import type { AffectedKey, Comparison, DecidedTraffic, RetryingTraffic } from "../replay/compare.ts";
import type { KnownSamples } from "../replay/messages.ts";
import { runTask, useSamples } from "../replay/worker-client.ts";
import {
  changeSummary,
  denialsPlot,
  noAnswer,
  olderText,
  periodText,
  rangeText,
  sampleText,
  warnings,
} from "./sample-texts.ts";
import { countOf, durationText, numberText, percentText } from "../parts/text.ts";
import { type Change, type DecidedChange, readWays } from "./ways.ts";
import { keyName } from "../keys/known-keys.ts";
import { type Column, Table } from "../parts/table.tsx";
import { hrefOf } from "../shell/route.ts";
import { type Decisions, decisionsOf, readDenials } from "../keys/denials.ts";
import { useRead } from "../api/poll.ts";

export interface LastDayProps {
  /** Null while the fields of the dialog are incomplete or invalid, and undefined while the change is not known yet. */
  readonly change: Change | null | undefined;
  /** The reason why samples cannot show the effect. It replaces the numbers. */
  readonly obstacle?: string | undefined;
}

export function LoadedLastDay({ change, obstacle }: LastDayProps) {
  // Invalid limits have no result: numbers of earlier limits would look like theirs.
  const read = change == null ? null : async () => ({ decided: await readWays(change) });
  const last = useRead(read, [JSON.stringify(change)], { laterMs: pauseMs });
  const isInvalid = change === null || (last !== null && last.decided === null);
  const decided = isInvalid ? null : (last?.decided ?? null);
  const title = change?.key === undefined ? "The last 24 hours" : "The last minutes";
  return (
    <section class="last-day" aria-label={title}>
      <h3>{title}</h3>
      {obstacle !== undefined && <p class="hint">{obstacle}</p>}
      {obstacle === undefined && isInvalid && <p class="hint">The numbers appear once the limits are valid.</p>}
      {obstacle === undefined && decided !== null && <OfPolicy change={decided} />}
    </section>
  );
}

const pauseMs = 300;
/** The numbers of a key are about its last minutes. */
const freshOfKeyMs = 60_000;

function OfPolicy({ change }: { readonly change: DecidedChange }) {
  const samples = useSamples(change.policy, change.key === undefined ? undefined : freshOfKeyMs);
  const failure = samples.problem.value;
  return (
    <Reading of={samples} what="the samples">
      {(known) => (
        <>
          {failure !== null && <p class="warning">{olderText(known, failure)}</p>}
          <OfSamples {...{ change, known }} />
        </>
      )}
    </Reading>
  );
}

function OfSamples({ change, known }: { readonly change: DecidedChange; readonly known: KnownSamples }) {
  const { policy, key, deciders } = change;
  const reason = noAnswer(known, key);
  const knownUntilMs = known.storedAtMs ?? known.source.toMs;
  const request = { policy, deciders, ...(key !== undefined && { key, knownUntilMs }) };
  const { result, problem, share } = useTask(
    reason === null ? async (options) => ({ change, comparison: await runTask("compare", request, options) }) : null,
    [JSON.stringify(change), known.readAtMs, reason],
  );
  if (reason !== null) return <p class="hint">{reason}</p>;
  if (problem.value !== null) return <Failure problem={problem.value} />;
  if (result.value === null) {
    return (
      <p class="hint" role="status">
        Replaying …
      </p>
    );
  }
  const { comparison, change: shown } = result.value;
  return (
    <div aria-busy={share.value !== null}>
      <p role="status">{changeSummary(comparison, shown)}</p>
      {warnings(known, comparison, shown.key).map((text) => (
        <p key={text} class="warning">
          {text}
        </p>
      ))}
      <DenialNumbers change={shown} comparison={comparison} />
      {shown.isDryRun === true && <DryRunStatistics policy={shown.policy} />}
      {shown.key === undefined && <AffectedKeys change={shown} comparison={comparison} />}
      <TimePlot {...denialsPlot(comparison, shown.titles)} />
      <p class="hint">{sampleText(comparison, shown.key)}</p>
    </div>
  );
}

interface ComparedProps {
  readonly change: DecidedChange;
  readonly comparison: Comparison;
}

function AffectedKeys({ change, comparison }: ComparedProps) {
  const { policy, titles } = change;
  const { affected, affectedKeys } = comparison;
  if (affected.length === 0) return <p>No denials of a sampled key differ.</p>;
  const columns: readonly Column<AffectedKey>[] = [
    { title: "Key", cell: ({ key }) => keyLink(policy, key) },
    { title: "Requests", cell: ({ requests }) => numberText(requests), isNumber: true },
    { title: "Share", cell: ({ shareOfRequests }) => percentText(shareOfRequests, 1), isNumber: true },
    ...titles.map((title, index) => ({
      title: `Denied: ${title.toLowerCase()}`,
      cell: ({ denied }: AffectedKey) => numberText(denied[index] ?? 0),
      isNumber: true,
    })),
  ];
  return (
    <>
      <p>
        The denials of {countOf(affectedKeys, "key")} differ
        {affectedKeys > affected.length && `; the ${affected.length} most affected ones are listed`}.
      </p>
      <Table caption="Keys affected most" columns={columns} rows={affected} keyOf={({ key }) => key} />
    </>
  );
}

/**
 * The link opens a new tab, so that nothing typed in the dialog is lost. The new tab gets the token of this one from
 * its opener.
 */
const keyLink = (policy: string, id: string) => (
  <a class="id" href={hrefOf("keys", { policy, id })} target="_blank" rel="opener">
    {keyName(policy, id)}
    <span class="hidden"> (opens in a new tab)</span>
  </a>
);

interface Row {
  readonly title: string;
  readonly cell: (traffic: DecidedTraffic) => string;
}

function DenialNumbers({ change: { titles, key }, comparison }: ComparedProps) {
  const period = periodText(comparison, key);
  const columns: readonly Column<Row>[] = [
    { title: period.replace(/^the l/, "L"), cell: ({ title }) => title },
    ...comparison.results.map((traffic, index) => ({
      title: titles[index] ?? "",
      cell: ({ cell }: Row) => cell(traffic),
      isNumber: true,
    })),
  ];
  const hasRetries = comparison.results.some(({ retrying, denied }) => retrying !== null && denied > 0);
  return (
    <>
      <Table
        caption={`Denied in ${period}`}
        columns={columns}
        rows={rowsOf(comparison, key !== undefined)}
        keyOf={({ title }) => title}
      />
      {hasRetries && (
        <p class="hint">
          Some clients send a denied request again after Retry-After, at most 10 times. These retries count against the
          limits, too, so that more requests may be denied.
        </p>
      )}
    </>
  );
}

const countAndShare = (part: number, whole: number): string => `${numberText(part)} (${percentText(part, whole)})`;

function rowsOf({ requests, keys, results, source: { oneKeyIn } }: Comparison, isOneKey: boolean): readonly Row[] {
  const isSample = oneKeyIn > 1 && !isOneKey;
  const hasRetries = results.some(({ retrying }) => retrying !== null);
  const rows: (Row & { readonly isShown: boolean })[] = [
    {
      title: hasRetries ? "If no client retries: requests denied" : "Requests denied",
      cell: ({ denied }) => countAndShare(denied, requests),
      isShown: true,
    },
    { title: "Of all requests (95 % interval)", cell: ({ deniedShare }) => rangeText(deniedShare), isShown: isSample },
    { title: "Keys denied", cell: ({ deniedKeys }) => countAndShare(deniedKeys, keys), isShown: !isOneKey },
    {
      title: "Of all keys (95 % interval)",
      cell: ({ deniedKeyShare }) => rangeText(deniedKeyShare),
      isShown: isSample,
    },
    {
      title: isOneKey ? "Longest denial" : "Longest denial of a key",
      cell: ({ longestDeniedMs: ms }) => (ms === null ? "–" : durationText(ms)),
      isShown: results.some(({ longestDeniedMs }) => longestDeniedMs !== null),
    },
    ...retryRows.map(({ title, text }) => ({
      title,
      cell: ({ retrying }: DecidedTraffic) => (retrying === null ? "–" : text(retrying)),
      isShown: hasRetries,
    })),
  ];
  return rows.filter(({ isShown }) => isShown);
}

const retryRows: readonly { readonly title: string; readonly text: (retrying: RetryingTraffic) => string }[] = [
  { title: "If clients retry: requests denied at first", text: ({ denied }) => numberText(denied) },
  { title: "If clients retry: requests never allowed", text: ({ abandoned }) => numberText(abandoned) },
  { title: "If clients retry: longest wait", text: ({ longestWaitMs }) => durationText(longestWaitMs) },
];

function DryRunStatistics({ policy }: { readonly policy: string }) {
  const points = useRead((abort) => readDenials(abort, policy), [policy]);
  return points && <p>{dryRunText(decisionsOf({ points }, policy))}</p>;
}

/** For example "Observed of all keys: 120 of 4,300 requests (2.8 %) would have been denied." */
const dryRunText = ({ all, denied, wouldBeDenied }: Decisions): string => {
  const share = `${numberText(wouldBeDenied)} of ${countOf(all, "request")} (${percentText(wouldBeDenied, all)})`;
  const before = denied === 0 ? "" : ` Before the dry run, ${numberText(denied)} were denied.`;
  return `Observed of all keys, sampled or not: ${share} would have been denied.${before}`;
};
