/**
 * The table of the comparison page that compares the speed of rate limiters, from the recorded run of the HTTP
 * benchmark.
 */
import type { RecordedRun } from "../http/record.ts";
import { markdownTable, type Row, whole } from "../table.ts";

const header: Row = ["limiter", "allowed/s", "denied/s", "CPU per request, µs", "p50 alone, ms"];

/** The contestants that allow requests, and those that deny them. */
const rows = [
  ["Headgate, `strict`", "check", "check-denied"],
  ["Headgate, `leased`", "check-leased", "check-denied"],
  ["Headgate, `eventual`", "check-eventual", "check-denied"],
  ["`hono-rate-limiter` with Durable Objects", "store", "store-denied"],
  ["rate limiting binding, emulated", "binding", "binding-denied"],
  ["`@upstash/ratelimit` on Node, local Redis", "upstash", "upstash-denied"],
  ["`rate-limiter-flexible` on Node, local Redis", "redis", "redis-denied-memory"],
] as const;

export function speedTable({ figures }: RecordedRun): string {
  const cells = rows.map(([title, allowing, denying]): Row => {
    const figuresOf = (id: string): (typeof figures)[number] | undefined => figures.find((of) => of.id === id);
    const [allowed, denied] = [figuresOf(allowing), figuresOf(denying)];
    return [
      title,
      text(allowed?.perSecond.median, whole),
      text(denied?.perSecond.median, whole),
      text(allowed?.cpuUs, whole),
      text(allowed?.alone?.p50Ms, (ms) => ms.toFixed(2)),
    ];
  });
  return markdownTable(header, cells);
}

const text = (value: number | null | undefined, format: (value: number) => string): string =>
  value === null || value === undefined ? "not measured" : format(value);
