/**
 * Recorded traffic is replayed under the limits that were in force. The replay must make every decision that the Worker
 * and its objects made. One virtual clock runs all of them.
 */
import { describe, expect, it, vi } from "vitest";
import { DenyCache } from "../../../src/limiter/isolate/deny-cache.ts";
import { sleep } from "../../../src/limiter/clock.ts";
import { replayAll } from "../../../src/advisor/replay/replay.ts";
import { arrivalOutcomes } from "../../../src/advisor/replay/timelines.ts";
import { isFull } from "../../mode.ts";
import { type Random, randomFrom } from "../../random.ts";
import { type RecordedAnswer, RecordedSite } from "./recorded-site.ts";

const secondMs = 1_000;
const hourMs = 3_600_000;
const startMs = Date.UTC(2027, 0, 14, 20);
const steps = isFull ? 1_500 : 500;
/** A full run repeats the short one with other traffic. */
const seed = isFull ? 2 : 1;

interface Counted {
  allowed: number;
  denied: number;
}

const counted = (): Counted => ({ allowed: 0, denied: 0 });

function count(counts: Counted, { allowed }: RecordedAnswer): void {
  if (allowed) counts.allowed++;
  else counts.denied++;
}

/** Replays the samples of a policy, compares all decisions, and returns the number of decisions. */
async function replayed(site: RecordedSite, policy: string, answered: Counted): Promise<Counted> {
  const { header, timelines } = await site.samples(policy, answered.allowed + answered.denied);
  expect(header).toMatchObject({ sample: "1/1", lost: 0, dropped: 0, coverage: 1 });
  const { limits } = site.config.policies.find(({ name }) => name === policy) ?? { limits: [] };
  const options = { keepsDecisions: true, decidesEveryKey: true };
  const [result] = replayAll(timelines, [limits], options);
  const recorded = Array.from(timelines.outcome, (outcome) => arrivalOutcomes[outcome]);
  const decided = Array.from(result?.allowed ?? [], (allowed) => (allowed ? "allowed" : "denied"));
  expect(decided).toEqual(recorded);
  const found = counted();
  for (const each of decided) found[each as keyof Counted]++;
  return found;
}

/**
 * Clients of `/check` that charge, reserve and settle at random. Two of them never reserve, so that their denials are
 * cached.
 */
class Clients {
  readonly counts = counted();
  readonly #site: RecordedSite;
  readonly #random: Random;
  readonly #ttlMs: number;

  constructor(site: RecordedSite, random: Random, ttlMs: number) {
    this.#site = site;
    this.#random = random;
    this.#ttlMs = ttlMs;
  }

  #below(end: number): number {
    return Math.floor(this.#random() * end);
  }

  /** Sends `steps` requests at this average interval. Some arrive within one millisecond. */
  async send(policy: string, gapMs: number): Promise<void> {
    for (let step = 0; step < steps; step++) {
      // oxlint-disable no-await-in-loop -- one after the other, as time passes
      const isBurst = this.#random() < 0.05;
      const gap = this.#random() < 0.3 ? 0 : Math.ceil(-Math.log(1 - this.#random()) * gapMs * 1.4);
      await this.#site.clock.advance(gap);
      const requests = Array.from({ length: isBurst ? 4 : 1 }, () => this.#request(policy));
      for (const answer of await Promise.all(requests)) count(this.counts, answer);
      // oxlint-enable no-await-in-loop
    }
  }

  #request(policy: string): Promise<RecordedAnswer> {
    const client = this.#below(4);
    const key = `client ${client}`;
    const cost = 1 + this.#below(3);
    return client > 1 && this.#random() < 0.4 ? this.#reserve(policy, key, cost) : this.#site.check(policy, key, cost);
  }

  /** One reservation in ten is never settled and expires. */
  async #reserve(policy: string, key: string, cost: number): Promise<RecordedAnswer> {
    const ttlMs = this.#ttlMs;
    const afterMs = this.#random() < 0.2 ? 0 : this.#below(ttlMs - 1);
    const actualCost = this.#below(cost + 3);
    const isSettled = this.#random() < 0.9;
    const answer = await this.#site.reserve(policy, key, { cost, ttlMs });
    const { id } = answer;
    if (id !== null && isSettled) {
      const settle = async (): Promise<void> => {
        if (afterMs > 0) await sleep(this.#site.clock, afterMs);
        await this.#site.settle(id, actualCost);
      };
      void settle();
    }
    return answer;
  }
}

interface Form {
  readonly limits: unknown;
  /** The average interval between two requests of the four clients. */
  readonly gapMs?: number;
  readonly ttlMs?: number;
}

const window = "10s";
const one = (strategy: string, options: object = {}): Form => ({
  limits: [{ limit: 14, window, strategy, ...options }],
});

const day = (options: object): Form => ({
  limits: [
    {
      limit: Math.floor(steps / 8),
      window: "1d",
      strategy: "fixed-window",
      align: "calendar",
      ...options,
    },
  ],
  gapMs: (10 * hourMs) / steps,
  ttlMs: hourMs,
});

const forms: Readonly<Record<string, Form>> = {
  "fixed-window from the first request": one("fixed-window", { align: "first-request" }),
  "fixed-window by the clock": one("fixed-window", { align: "clock" }),
  "fixed-window by the calendar": day({}),
  "fixed-window by the calendar of a time zone": day({ timezone: "America/New_York" }),
  // Each denial restarts the window, so that clients that send more often would be denied for ever.
  "elastic fixed-window": { ...one("fixed-window", { elastic: true }), gapMs: 900 },
  "sliding-window-counter": one("sliding-window-counter"),
  "sliding-window-counter by the clock": one("sliding-window-counter", { align: "clock" }),
  "sliding-log": one("sliding-log"),
  "sliding-buckets that keep the oldest": one("sliding-buckets", { edge: "keep" }),
  "sliding-buckets that drop the oldest": one("sliding-buckets", { edge: "drop" }),
  "token-bucket with a continuous refill": one("token-bucket", { refill: "continuous", burst: 9 }),
  "token-bucket with a refill by intervals": one("token-bucket", { refill: "interval" }),
  "leaky-bucket that polices": one("leaky-bucket", { mode: "police" }),
  "leaky-bucket with a queue": one("leaky-bucket", { mode: "queue", burst: 6 }),
  concurrency: { limits: [{ limit: 9, window, strategy: "concurrency" }], ttlMs: 4 * secondMs },
  "several limits on one key": {
    limits: [
      { name: "burst", limit: 6, window: "2s", strategy: "token-bucket" },
      { name: "log", limit: 14, window, strategy: "sliding-log" },
      { name: "long", limit: 60, window: "1m", strategy: "sliding-buckets" },
      { name: "clock", limit: 40, window: "30s", strategy: "fixed-window", align: "clock" },
    ],
  },
};

const proxied = { objects: "sharded", shards: 1 };

/** Sends requests of three clients through the proxy. Each request begins when the previous one is decided. */
async function sendRequests(site: RecordedSite, random: Random, gapMs: number): Promise<RecordedAnswer[]> {
  const answers: Promise<RecordedAnswer>[] = [];
  for (let step = 0; step < steps; step++) {
    // oxlint-disable no-await-in-loop -- one after the other, as time passes
    const gap = random() < 0.3 ? 0 : Math.ceil(random() * 2 * gapMs);
    await site.clock.advance(gap);
    answers.push(site.request(`192.0.2.${1 + Math.floor(random() * 3)}`));
    // oxlint-enable no-await-in-loop
  }
  await site.clock.advance(120_000);
  return Promise.all(answers);
}

describe("requests through the proxy", () => {
  it("a replay reproduces the decisions about concurrency slots, which requests hold until the origin has responded", async () => {
    const random = randomFrom(seed);
    const limits = [{ limit: 4, window: "6s", strategy: "concurrency" }];
    const site = new RecordedSite([{ name: "p", limits, ...proxied }], startMs);
    // Some requests hold their slots for longer than the window, because they renew them.
    site.origin = () => ({
      takesMs: Math.floor(random() < 0.1 ? random() * 30_000 : random() * 3_000),
    });
    const counts = counted();
    for (const answer of await sendRequests(site, random, 150)) {
      count(counts, answer);
    }
    expect(await replayed(site, "p", counts)).toEqual(counts);
    expect(Math.min(counts.allowed, counts.denied)).toBeGreaterThan(steps / 10);
  });

  it("a replay reproduces the decisions about costs that the responses state", async () => {
    const random = randomFrom(seed);
    const limits = [{ limit: 20, window: "10s", strategy: "sliding-log" }];
    const cost = { from: "response-header:x-cost", reserve: 2, max: 6 };
    const site = new RecordedSite([{ name: "p", limits, cost, ...proxied }], startMs);
    site.origin = () => ({
      takesMs: Math.floor(random() * 2_000),
      cost: Math.floor(random() * 7),
    });
    const counts = counted();
    for (const answer of await sendRequests(site, random, 250)) {
      count(counts, answer);
    }
    expect(await replayed(site, "p", counts)).toEqual(counts);
    expect(Math.min(counts.allowed, counts.denied)).toBeGreaterThan(steps / 10);
  });

  it("a replay reproduces the decisions of several policies when each denies requests that the others allow", async () => {
    const random = randomFrom(seed);
    const policies = [
      { name: "log", limits: [{ limit: 6, window: "10s", strategy: "sliding-log" }] },
      {
        name: "bucket",
        limits: [{ limit: 15, window: "30s", strategy: "token-bucket", burst: 5 }],
      },
      { name: "slots", limits: [{ limit: 2, window: "5s", strategy: "concurrency" }] },
      {
        name: "site",
        key: "host",
        limits: [{ limit: 12, window: "8s", strategy: "fixed-window" }],
      },
    ].map((policy) => ({ ...policy, ...proxied }));
    const site = new RecordedSite(policies, startMs);
    site.origin = () => ({ takesMs: Math.floor(random() * 4_000) });
    const answers = await sendRequests(site, random, 400);
    const allowed = answers.filter((answer) => answer.allowed).length;
    for (const { name } of policies) {
      const found = await replayed(site, name, { allowed, denied: 0 });
      expect(found.allowed).toBe(allowed);
      expect(found.denied).toBeGreaterThan(0);
    }
  });
});

describe("checks and reservations", () => {
  it.for(Object.entries(forms))(
    "a replay of %s reproduces every recorded decision",
    { timeout: 120_000 },
    async ([, { limits, gapMs = 200, ttlMs = 4 * secondMs }]) => {
      const recall = vi.spyOn(DenyCache.prototype, "recall");
      const policy = { name: "p", key: "header:x-client", limits };
      const site = new RecordedSite([policy], startMs);
      const clients = new Clients(site, randomFrom(seed), ttlMs);
      await clients.send("p", gapMs);
      const found = await replayed(site, "p", clients.counts);
      expect(found).toEqual(clients.counts);
      expect(found.allowed).toBeGreaterThan(steps / 10);
      expect(found.denied).toBeGreaterThan(steps / 10);
      const cached = recall.mock.results.filter(({ value }) => value !== null).length;
      recall.mockRestore();
      const isCached = !/elastic|concurrency/.test(JSON.stringify(limits));
      expect(cached > 0).toBe(isCached);
    },
  );
});
