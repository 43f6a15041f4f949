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
  ["rate-limit binding, emulated", "binding", "binding-denied"],
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

/** The answer: a sentence about slower rate limiters and one about faster ones, with ratios of medians. */
export function peersText(run: RecordedRun): string {
  const [strict, , store, binding, redis] = peersOf(run).map(({ allowed }) => allowed);
  const others = [
    ["`hono-rate-limiter`", store],
    ["the rate-limit binding that wrangler emulates", binding],
    ["`rate-limiter-flexible` on Node with Redis", redis],
  ] as const;
  const ratios = others.map(([name, figures]) => ({ name, value: ratio(strict, figures) ?? NaN }));
  const slower = ratios
    .filter(({ value }) => value >= 1)
    .map(({ name, value }) => `${value.toFixed(1)} times as fast as ${name}`);
  const faster = ratios
    .filter(({ value }) => value < 1)
    .map(({ name, value }) => `${name} is ${(1 / value).toFixed(1)} times as fast`);
  return [
    ...(slower.length > 0
      ? [`In requests per second, Headgate's strict \`/check\` is ${slower.join(" and ")}.`]
      : []),
    ...(faster.length > 0 ? [`Compared with Headgate, ${faster.join(" and ")}.`] : []),
  ].join(" ");
}
