/** The totals of the span. */
import type { ComponentChildren } from "preact";
import { numberText, percentText, shortNumberText } from "../parts/text.ts";
import { latenciesOf, numbersOf, percentile } from "./tally.ts";
import type { PolicyTraffic, CountedTraffic } from "./traffic.ts";

interface TilesProps {
  /** Null before the first answer. */
  readonly traffic: CountedTraffic | null;
  readonly chosen: PolicyTraffic | null;
  readonly policy: string | null;
}

export function Tiles({ traffic, chosen, policy }: TilesProps) {
  const numbers = chosen === null ? null : numbersOf(chosen.total);
  return (
    <dl class="tiles">
      <Tile title="Allowed" kind="allowed">
        {tileText(numbers?.allowed)}
      </Tile>
      <Tile title="Denied" kind="denied">
        {tileText(numbers?.denied)}
      </Tile>
      <Tile title="Denied share">{numbers === null ? "–" : percentText(numbers.denied, numbers.decisions)}</Tile>
      <Tile title="Would be denied" note="dry run, part of Allowed">
        {tileText(numbers?.dryRunDenied)}
      </Tile>
      <Tile title="Near limit" note="less than 20 % left, also if denied">
        {tileText(numbers?.nearLimit)}
      </Tile>
      <Tile title="Object unavailable" note="onError decided">
        {tileText(numbers?.fallback)}
      </Tile>
      <Tile title="Origin failures" note={policy === null ? "" : "all policies"}>
        {tileText(traffic?.originFailures)}
      </Tile>
      <Tile title="Latency p50">{latencyOf(traffic, chosen, 0.5)}</Tile>
      <Tile title="Latency p99">{latencyOf(traffic, chosen, 0.99)}</Tile>
    </dl>
  );
}

const Tile = ({
  title,
  kind = "",
  note = "",
  children,
}: {
  readonly title: string;
  readonly kind?: "allowed" | "denied" | "";
  readonly note?: string;
  readonly children: ComponentChildren;
}) => (
  <div class="card">
    <dt>{title}</dt>
    <dd class={kind}>{children}</dd>
    {note !== "" && <dd class="note">{note}</dd>}
  </div>
);

const exactBelow = 100_000;

function tileText(value: number | undefined): string {
  if (value === undefined) return "–";
  return value < exactBelow ? numberText(value) : shortNumberText(value);
}

const latencyOf = (traffic: CountedTraffic | null, chosen: PolicyTraffic | null, share: number): string =>
  traffic === null || chosen === null
    ? "–"
    : latencyText(percentile(latenciesOf(chosen.total), traffic.boundsMs, share), traffic.boundsMs);

/** The upper bound of a bucket, which is all that is known of its decisions. */
export function latencyText(boundMs: number | null, boundsMs: readonly number[]): string {
  if (boundMs === null) return "–";
  const largest = boundsMs.at(-1) ?? 0;
  return boundMs > largest ? `>\u00a0${numberText(largest)}\u00a0ms` : `≤\u00a0${numberText(boundMs)}\u00a0ms`;
}
