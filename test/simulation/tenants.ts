/**
 * How long a tenant should count as active after a request. The traffic of 10,000 bursty tenants, and that of three tenants,
 * is decided with activity of several lengths.
 */
import { createMeter, parseLimits, Shares } from "../../src/strategies/index.ts";
import { randomFrom } from "../random.ts";

export const shape = {
  tenants: 10_000,
  limitPerMinute: 72_000,
  /** They send at all times. */
  greedy: { tenants: 50, requestsPerSecond: 10 },
  /** They send one request, on average every 5 s. */
  slow: { tenants: 1_000, pauseMs: 5_000 },
  /** All others: bursts of up to 9 requests within 2 s, on average every 60 s. */
  bursty: { mostRequests: 9, burstMs: 2_000, pauseMs: 60_000 },
  /** Two tenants that send at all times, and one that sends a batch, on average every 5 s. */
  few: { limitPerMinute: 600, requestsPerSecond: 20, batch: 15, pauseMs: 5_000 },
  /** The first two minutes are left out: by then, every window is full. */
  warmUpMs: 120_000,
  durationMs: 180_000,
} as const;

export const activeLengthsMs = [0, 1_000, 3_000, 10_000, 30_000, 60_000] as const;

type Kind = "greedy" | "slow" | "bursty";

interface Arrival {
  readonly atMs: number;
  readonly tenant: number;
  readonly kind: Kind;
}

interface Outcome {
  /** Denied requests as a part of those sent, by kind of tenant. */
  readonly denied: Readonly<Record<Kind, number>>;
  /** Spent units as a part of the limit. */
  readonly usage: number;
  /** The mean number of active tenants. */
  readonly active: number;
}

export interface Measured {
  /** 0 for decisions without shares. */
  readonly activeMs: number;
  readonly many: Outcome;
  /** The tenant with batches is the only one that is bursty. */
  readonly few: Outcome;
}

const kindOf = (tenant: number): Kind =>
  tenant < shape.greedy.tenants ? "greedy" : tenant < shape.greedy.tenants + shape.slow.tenants ? "slow" : "bursty";

/** A pause of a random length, as between independent requests. */
const pauseOf =
  (random: () => number) =>
  (meanMs: number): number =>
    -Math.log(1 - random()) * meanMs;

const inOrder = (arrivals: readonly Arrival[]): readonly Arrival[] => arrivals.toSorted((a, b) => a.atMs - b.atMs);

/** The requests of 10,000 tenants, in the order of time. */
function drawMany(): readonly Arrival[] {
  const random = randomFrom(11);
  const pause = pauseOf(random);
  const arrivals: Arrival[] = [];
  for (let tenant = 0; tenant < shape.tenants; tenant++) {
    const kind = kindOf(tenant);
    const meanMs =
      kind === "greedy"
        ? 1_000 / shape.greedy.requestsPerSecond
        : kind === "slow"
          ? shape.slow.pauseMs
          : shape.bursty.pauseMs;
    for (let atMs = pause(meanMs); atMs < shape.durationMs; atMs += pause(meanMs)) {
      const requests = kind === "bursty" ? 1 + Math.floor(random() * shape.bursty.mostRequests) : 1;
      for (let each = 0; each < requests; each++) {
        const afterMs = each === 0 ? 0 : random() * shape.bursty.burstMs;
        arrivals.push({ atMs: Math.floor(atMs + afterMs), tenant, kind });
      }
    }
  }
  return inOrder(arrivals);
}

/** The requests of two greedy tenants and of one that sends batches. */
function drawFew(): readonly Arrival[] {
  const random = randomFrom(12);
  const pause = pauseOf(random);
  const { requestsPerSecond, batch, pauseMs } = shape.few;
  const arrivals: Arrival[] = [];
  for (const tenant of [0, 1]) {
    for (let atMs = 0; atMs < shape.durationMs; atMs += pause(1_000 / requestsPerSecond)) {
      arrivals.push({ atMs: Math.floor(atMs), tenant, kind: "greedy" });
    }
  }
  for (let atMs = 0; atMs < shape.durationMs; atMs += (0.6 + 0.8 * random()) * pauseMs) {
    for (let each = 0; each < batch; each++) arrivals.push({ atMs: Math.floor(atMs), tenant: 2, kind: "bursty" });
  }
  return inOrder(arrivals);
}

function measureWith(arrivals: readonly Arrival[], limitPerMinute: number, activeMs: number): Outcome {
  const limits = parseLimits(`${limitPerMinute}/minute`);
  const [limit] = limits;
  if (limit === undefined) throw new Error("expected one limit");
  const meter = createMeter(limits);
  const shares = activeMs === 0 ? null : new Shares(limit, "fair", activeMs);
  const sent = { greedy: 0, slow: 0, bursty: 0 };
  const denied = { greedy: 0, slow: 0, bursty: 0 };
  let [spent, active, measured] = [0, 0, 0];
  for (const { atMs, tenant, kind } of arrivals) {
    const key = String(tenant);
    shares?.touch(key, 1, atMs);
    const free = meter.look(0, atMs).limits[0]?.remaining ?? 0;
    const room = shares === null ? free : shares.roomOf(key, free, atMs).units;
    const allowed = room >= 1 && meter.consume(1, atMs).allowed;
    if (allowed) shares?.spend(key, 1, atMs, atMs);
    if (atMs < shape.warmUpMs || atMs >= shape.durationMs) continue;
    measured++;
    active += shares?.activeCount ?? 0;
    sent[kind]++;
    if (allowed) spent++;
    else denied[kind]++;
  }
  const minutes = (shape.durationMs - shape.warmUpMs) / 60_000;
  const part = (kind: Kind): number => denied[kind] / Math.max(1, sent[kind]);
  return {
    denied: { greedy: part("greedy"), slow: part("slow"), bursty: part("bursty") },
    usage: spent / (limitPerMinute * minutes),
    active: active / measured,
  };
}

/** The same on every run. */
export function measureTenants(): readonly Measured[] {
  const [many, few] = [drawMany(), drawFew()];
  return activeLengthsMs.map((activeMs) => ({
    activeMs,
    many: measureWith(many, shape.limitPerMinute, activeMs),
    few: measureWith(few, shape.few.limitPerMinute, activeMs),
  }));
}
