/** Sends the same requests to Headgates with many kinds of configuration, and records the responses. */
import { parseList } from "structured-headers";
import { vi } from "vitest";
import { from, headgate } from "../http/harness.ts";

export const startMs = Date.UTC(2100, 0, 1);
export const visitor = from("203.0.113.7");

interface Kind {
  readonly variables: Record<string, unknown>;
  /** The cost of a reservation that is made before the first request. */
  readonly reservedCost?: number;
}

const policy = (fields: object): Kind => ({
  variables: { POLICIES: [{ name: "p", limits: "2/minute", strategy: "fixed-window", ...fields }] },
});

/** The variables of each kind of configuration, by the name of the kind. */
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
    reservedCost: 2,
  },
  "a window shorter than a second": policy({ limits: "2/500ms" }),
  "a window of 1.5 seconds": policy({ limits: "2/1500ms" }),
  "ten years": policy({ limits: "2/3650d" }),
  "several limits": policy({ limits: "2/minute; 3/hour; 100/day" }),
  "a ban": policy({ ban: { after: 1, within: "1m", for: "1h" } }),
  onDeny: policy({ onDeny: { status: 503, body: "later" } }),
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

export interface Exchange {
  readonly kind: string;
  readonly response: Response;
  readonly body: string;
  readonly policies: readonly Item[];
  readonly limits: readonly Item[];
}

export interface Item {
  readonly name: unknown;
  readonly parameters: ReadonlyMap<string, unknown>;
}

export const itemsOf = (value: string | null): Item[] =>
  value === null ? [] : parseList(value).map(([name, parameters]) => ({ name, parameters: new Map(parameters) }));

/** The exchanges of each kind: five requests at one instant, and one 20 seconds later. */
export async function recordExchanges(): Promise<Exchange[]> {
  const exchanges: Exchange[] = [];
  for (const [kind, { variables, reservedCost }] of Object.entries(kinds)) {
    vi.setSystemTime(startMs);
    const { send, check } = headgate(variables);
    if (reservedCost !== undefined) {
      // oxlint-disable-next-line no-await-in-loop
      await check("POST", "/check/reserve", {
        key: "203.0.113.7",
        cost: reservedCost,
        ttlMs: 60_000,
      });
    }
    for (const afterMs of [0, 0, 0, 0, 0, 20_001]) {
      vi.setSystemTime(startMs + afterMs);
      // Sequential: each response depends on the requests before it.
      // oxlint-disable-next-line no-await-in-loop
      const response = await send("/", visitor);
      // oxlint-disable-next-line no-await-in-loop
      const body = await response.text();
      const { headers } = response;
      const policies = itemsOf(headers.get("RateLimit-Policy"));
      exchanges.push({ kind, response, body, policies, limits: itemsOf(headers.get("RateLimit")) });
    }
  }
  return exchanges;
}
