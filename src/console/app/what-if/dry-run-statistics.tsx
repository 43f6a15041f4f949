/** The statistics of a dry run, which count all keys. */
import { useEffect, useState } from "preact/hooks";
import { readDenials } from "../keys/denial-share.ts";
import { numberText, percentText } from "../parts/text.ts";
import { type Decisions, decisionsOf } from "../policies/decisions.ts";
import { countOf } from "./sample-texts.ts";

export function DryRunStatistics({ policy }: { readonly policy: string }) {
  const [decisions, setDecisions] = useState<Decisions | null>(null);
  useEffect(() => {
    const abort = new AbortController();
    readDenials(abort.signal, policy).then(
      (points) => setDecisions(decisionsOf({ points }, policy)),
      () => null,
    );
    return () => abort.abort();
  }, [policy]);
  if (decisions === null) return null;
  return <p>{dryRunText(decisions)}</p>;
}

/** For example "Observed of all keys: 120 of 4,300 requests (2.8 %) would have been denied." */
export const dryRunText = ({ all, denied, wouldBeDenied }: Decisions): string => {
  const share = `${numberText(wouldBeDenied)} of ${countOf(all, "request")} (${percentText(wouldBeDenied, all)})`;
  const before = denied === 0 ? "" : ` Before the dry run, ${numberText(denied)} were denied.`;
  return `Observed of all keys, sampled or not: ${share} would have been denied.${before}`;
};
