/** Headgate beside other rate limiters: the few rows of a run that answer how fast it is compared with them. */
import { markdownTable, type Row, whole } from "../table.ts";
import type { Figures, RecordedRun } from "./record.ts";

export interface Peer {
  readonly title: string;
  /** Requests that are allowed, and that are denied; undefined if that was not measured. */
  readonly allowed: Figures | undefined;
  readonly denied: Figures | undefined;
}

/** By title: the ids of the contestants. */
const ids: readonly (readonly [title: string, allowed: string, denied: string])[] = [
  ["Headgate, strict", "check", "check-denied"],
  ["Headgate, leased", "check-leased", "check-denied-leased"],
  ["hono-rate-limiter, Durable Object", "store", "store-denied"],
  ["rate limiting binding, emulated", "binding", "binding-denied"],
  ["rate-limiter-flexible, Node and Redis", "redis", "redis-denied"],
  ["no rate limiter, Worker", "plain", ""],
];

export function peersOf({ figures }: RecordedRun): Peer[] {
  const figuresOf = (id: string): Figures | undefined => figures.find((of) => of.id === id);
  return ids.map(([title, allowed, denied]) => ({
    title,
    allowed: figuresOf(allowed),
    denied: figuresOf(denied),
  }));
}

const rate = (figures: Figures | undefined): string =>
  figures === undefined ? "" : whole(figures.perSecond.median);

/** The ratio of two medians. */
const ratio = (of: Figures | undefined, to: Figures | undefined): number | null =>
  of === undefined || to === undefined ? null : of.perSecond.median / to.perSecond.median;

const ratioText = (value: number | null): string => (value === null ? "" : value.toFixed(2));

export function peersTable(run: RecordedRun): string {
  const peers = peersOf(run);
  const [strict] = peers;
  const rows = peers.map(({ title, allowed, denied }): Row => [
    title,
    rate(allowed),
    rate(denied),
    ratioText(ratio(strict?.allowed, allowed)),
    ratioText(ratio(strict?.denied, denied)),
  ]);
  return markdownTable(
    ["requests per second", "allowed", "denied", "strict ÷ row, allowed", "strict ÷ row, denied"],
    rows,
  );
}

/** A sentence about slower rate limiters and one about faster ones, with ratios of medians. */
export function peersText(run: RecordedRun): string {
  const [strict, , store, binding, redis] = peersOf(run).map(({ allowed }) => allowed);
  const others = [
    ["`hono-rate-limiter`", store],
    ["the rate limiting binding that wrangler emulates", binding],
    ["`rate-limiter-flexible` on Node with Redis", redis],
  ] as const;
  const ratios = others.map(([name, figures]) => ({ name, value: ratio(strict, figures) ?? NaN }));
  const compared = (group: typeof ratios, digits: number): string =>
    group
      .map(({ name, value }, index) => {
        const unit = index === 0 ? " requests per second" : "";
        return `${value.toFixed(digits)} times as many${unit} as ${name}`;
      })
      .join(" and ");
  const slower = ratios.filter(({ value }) => value >= 1);
  const faster = ratios.filter(({ value }) => value < 1);
  const sentences = [
    ...(slower.length > 0 ? [compared(slower, 1)] : []),
    ...(faster.length > 0 ? [compared(faster, 2)] : []),
  ];
  return sentences
    .map((sentence, index) =>
      index === 0
        ? `Headgate's strict \`/check\` serves ${sentence}.`
        : `It serves only ${sentence}.`,
    )
    .join(" ");
}
