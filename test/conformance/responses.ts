/** Answers of Headgates of many kinds, from those that let in to those that have nothing left. */
import { parseList } from "structured-headers";
import { vi } from "vitest";
import { from, headgate } from "../http/harness.ts";

export const startMs = Date.UTC(2100, 0, 1);
export const visitor = from("203.0.113.7");

interface Kind {
  readonly variables: Record<string, unknown>;
  /** What is taken by a reservation before the first request. */
  readonly reserved?: number;
}

const policy = (fields: object): Kind => ({
  variables: { POLICIES: [{ name: "p", limits: "2/minute", strategy: "fixed-window", ...fields }] },
});

/** By what is special in each. */
export const kinds: Readonly<Record<string, Kind>> = {
  "fixed-window": policy({}),
  "fixed-window, elastic": policy({ limits: { limit: 2, window: "1m", elastic: true } }),
  "fixed-window of a month": policy({ limits: "2/month" }),
  "sliding-log": policy({ strategy: "sliding-log" }),
  "sliding-window-counter": policy({ strategy: "sliding-window-counter" }),
  "sliding-buckets": policy({ strategy: "sliding-buckets" }),
  "token-bucket": policy({
    limits: { limit: 2, window: "1m", strategy: "token-bucket", burst: 3 },
  }),
  "leaky-bucket": policy({
    limits: { limit: 2, window: "1m", strategy: "leaky-bucket", mode: "police" },
  }),
  queue: policy({
    limits: { limit: 2, window: "1s", strategy: "leaky-bucket", burst: 1 },
    maxDelay: "1ms",
  }),
  concurrency: {
    ...policy({ limits: { limit: 2, window: "10m", strategy: "concurrency" } }),
    reserved: 2,
  },
  "a window of less than a second": policy({ limits: "2/500ms" }),
  "a window of seconds and a half": policy({ limits: "2/1500ms" }),
  "ten years": policy({ limits: "2/3650d" }),
  "several limits": policy({ limits: "2/minute; 3/hour; 100/day" }),
  "a ban": policy({ ban: { after: 1, within: "1m", for: "1h" } }),
  "an answer of its own": policy({ onDeny: { status: 503, body: "later" } }),
  "several policies of several keys": {
    variables: {
      POLICIES: [
        { name: "everyone", limits: "100/minute", key: "global", strategy: "token-bucket" },
        { name: "visitors", limits: "2/minute", key: "ip" },
        { name: "slots", limits: { limit: 9, window: "1m", strategy: "concurrency" }, key: "ip" },
        { name: "shadow", limits: "1/minute", key: "ip", dryRun: true },
      ],
    },
  },
};

export interface Told {
  readonly kind: string;
  readonly response: Response;
  readonly policies: readonly Item[];
  readonly limits: readonly Item[];
}

export interface Item {
  readonly name: unknown;
  readonly parameters: ReadonlyMap<string, unknown>;
}

export const itemsOf = (value: string | null): Item[] =>
  value === null
    ? []
    : parseList(value).map(([name, parameters]) => ({ name, parameters: new Map(parameters) }));

/** What five requests at one instant, and one a while later, are answered by each kind; all bodies are text. */
export async function allTold(): Promise<Told[]> {
  const told: Told[] = [];
  for (const [kind, { variables, reserved }] of Object.entries(kinds)) {
    vi.setSystemTime(startMs);
    const { send, check } = headgate(variables);
    if (reserved !== undefined) {
      // oxlint-disable-next-line no-await-in-loop
      await check("POST", "/check/reserve", { key: "203.0.113.7", cost: reserved, ttlMs: 60_000 });
    }
    for (const afterMs of [0, 0, 0, 0, 0, 20_001]) {
      vi.setSystemTime(startMs + afterMs);
      // One after the other, each meets what is left by those before.
      // oxlint-disable-next-line no-await-in-loop
      const response = await send("/", visitor);
      const { headers } = response;
      const policies = itemsOf(headers.get("RateLimit-Policy"));
      told.push({ kind, response, policies, limits: itemsOf(headers.get("RateLimit")) });
    }
  }
  return told;
}
