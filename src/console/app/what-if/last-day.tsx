/** The last 24 hours as they would have been under a change, replayed from sampled traffic. */
import { useEffect, useState } from "preact/hooks";
import { Failure, Loading } from "../parts/notice.tsx";
import { TimePlot } from "../parts/plot.tsx";
import { useTask } from "../replay/latest-task.ts";
import type { KnownSamples } from "../replay/messages.ts";
import { runTask } from "../replay/replayer.ts";
import { useSamples } from "../replay/use-samples.ts";
import { AffectedKeys } from "./affected-keys.tsx";
import { denialsPlot } from "./denials-plot.ts";
import { DryRunStatistics } from "./dry-run-statistics.tsx";
import { DenialNumbers } from "./denial-numbers.tsx";
import { type DecidedChange, readWays } from "./read-ways.ts";
import { changeSummary, noAnswer, olderText, sampleText, warnings } from "./sample-texts.ts";
import type { Change } from "./ways.ts";

export interface LastDayProps {
  /** Null while the fields of the dialog are incomplete: the result of the last complete ones stays. */
  readonly change: Change | null;
  /** Why samples cannot answer; takes the place of the numbers. */
  readonly obstacle?: string;
}

export function LoadedLastDay({ change, obstacle }: LastDayProps) {
  const decided = useDecided(change);
  return (
    <section class="last-day" aria-label="The last 24 hours">
      <h3>The last 24 hours</h3>
      {obstacle !== undefined && <p class="hint">{obstacle}</p>}
      {obstacle === undefined && decided !== null && <OfPolicy change={decided} />}
    </section>
  );
}

/** Long enough for the next key of somebody who types. */
const pauseMs = 300;

/** The last complete change, once nothing has been typed for a moment. */
function useDecided(change: Change | null): DecidedChange | null {
  const [decided, setDecided] = useState<DecidedChange | null>(null);
  const isFirst = decided === null;
  useEffect(() => {
    if (change === null) return undefined;
    let isOutdated = false;
    const read = (): void => {
      // Text that is no limits keeps the former result. The dialog shows its problem.
      readWays(change).then(
        (ready) => ready !== null && !isOutdated && setDecided(ready),
        () => null,
      );
    };
    const timer = setTimeout(read, isFirst ? 0 : pauseMs);
    return () => {
      isOutdated = true;
      clearTimeout(timer);
    };
    // oxlint-disable-next-line react/exhaustive-deps -- a change is the same if its text is
  }, [JSON.stringify(change)]);
  return decided;
}

function OfPolicy({ change }: { readonly change: DecidedChange }) {
  const { samples, problem, readAgain } = useSamples(change.policy);
  const known = samples.value;
  const failure = problem.value;
  if (known === null) {
    if (failure !== null) return <Failure problem={failure} onRetry={readAgain} />;
    return <Loading what="the samples" />;
  }
  return (
    <>
      {failure !== null && <p class="warning">{olderText(known, failure)}</p>}
      <OfSamples {...{ change, known }} />
    </>
  );
}

interface OfSamplesProps {
  readonly change: DecidedChange;
  readonly known: KnownSamples;
}

function OfSamples({ change, known }: OfSamplesProps) {
  const { policy, key } = change;
  const reason = noAnswer(known, key);
  const { result, problem, share } = useTask(
    reason === null
      ? async (options) => {
          const { deciders } = change;
          const request = { policy, deciders, ...(key !== undefined && { key }) };
          return { change, comparison: await runTask("compare", request, options) };
        }
      : null,
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
      <DenialNumbers comparison={comparison} titles={shown.titles} isOneKey={shown.key !== undefined} />
      {shown.isDryRun === true && <DryRunStatistics policy={shown.policy} />}
      {shown.key === undefined && <AffectedKeys change={shown} comparison={comparison} />}
      <TimePlot {...denialsPlot(comparison, shown.titles)} />
      <p class="hint">{sampleText(comparison, shown.key)}</p>
    </div>
  );
}
