/** Runs a lane: the enforcing engine decides every request of a scenario, each key with a meter of its own. */
import {
  changesByDenial,
  createMeter,
  type Decision,
  holdsSlots,
  type Limit,
  type UsageBreakdown,
  type Meter,
  provisionalTtlMs,
} from "../../../strategies/index.ts";
import { denialWaitMs, obeyedWaitMs, randomAt, timeQueue } from "../../../advisor/replay/clients.ts";
import { columnWriter, type RunColumns, rowsByKey } from "./columns.ts";
import { type Lane, laneLimitOf } from "./lanes.ts";
import { type Arrivals, type LaneRun, neverMs, outcome, type Scenario } from "./scenario.ts";
import { summaryOf } from "./summary.ts";

/** The most rows of a run. Retries could make more than a browser has memory for. */
export const mostRows = 500_000;

/** Rows between two steps of a run, which takes some milliseconds. */
const rowsPerStep = 5_000;

/** Runs a lane in short steps. Each step yields the share of the requests that are decided, from 0 to 1. */
export function* runLane(lane: Lane, arrivals: Arrivals, scenario: Scenario): Generator<number, LaneRun> {
  const decider = laneDecider(lane, arrivals, scenario);
  while (decider.decideRows()) yield decider.share();
  const limits = lane.limits.map(laneLimitOf);
  const { startMs, keys } = arrivals;
  const { columns, isCut } = decider.finish();
  const rows = { ...columns, runsMs: scenario.runsMs };
  const summary = summaryOf(rows, limits);
  return { lane: lane.lane, limits, startMs, keys, ...rows, isCut, summary };
}

interface LaneDecider {
  /** Decides the requests of one step. Returns whether any are left. */
  decideRows(): boolean;
  share(): number;
  finish(): { readonly columns: RunColumns; readonly isCut: boolean };
}

/** Plain functions with loops: JavaScript engines optimize them better than a generator. */
function laneDecider({ limits }: Lane, arrivals: Arrivals, scenario: Scenario): LaneDecider {
  const { startMs } = arrivals;
  const clients = new Map<number, ClientMeter>();
  const columns = columnWriter(arrivals.atMs.length);
  const isByClient = scenario.retries.kind === "none";
  const requests = isByClient ? requestsByClient(arrivals) : requestsInOrder(arrivals, scenario);
  let [arrived, decided, isCut] = [0, 0, false];
  const decideNext = (): boolean => {
    const request = requests.next();
    isCut = request !== null && decided === mostRows;
    if (request === null || isCut) return false;
    const { atMs, arrival, retry } = request;
    if (retry === 0) arrived++;
    const key = arrivals.key[arrival] ?? 0;
    const cost = arrivals.cost[arrival] ?? 0;
    let client = clients.get(key);
    if (client === undefined) {
      if (isByClient) clients.clear();
      client = clientMeter(limits, scenario.runsMs);
      clients.set(key, client);
    }
    client.release(startMs + atMs);
    const decision = client.decide(cost, startMs + atMs);
    const { allowed, delayMs, retryAfterMs } = decision;
    columns.write(isByClient ? arrival : decided, {
      atMs,
      key,
      cost,
      outcome: allowed ? (delayMs > 0 ? outcome.delayed : outcome.allowed) : outcome.denied,
      remaining: leastRemaining(decision),
      waitMs: allowed ? delayMs : (retryAfterMs ?? neverMs),
      deniedBy: allowed ? 0 : denyingBits(decision),
      arrival,
      retry,
    });
    decided++;
    if (!allowed) requests.deny(request, decision);
    return true;
  };
  return {
    decideRows() {
      for (let row = 0; row < rowsPerStep; row++) {
        if (!decideNext()) return false;
      }
      return true;
    },
    share: () => arrived / arrivals.atMs.length,
    finish: () => ({ columns: columns.finish(), isCut }),
  };
}

function leastRemaining({ limits }: Decision): number {
  let least = Infinity;
  for (const { remaining } of limits) if (remaining < least) least = remaining;
  return least;
}

function denyingBits({ limits }: Decision): number {
  let bits = 0;
  for (const [index, { allowed }] of limits.entries()) if (!allowed) bits |= 1 << index;
  return bits;
}

/** The counters of one client. */
interface ClientMeter {
  readonly meter: Meter;
  /** Gives back the slots of requests that have ended. Call it before a decision. */
  release(nowMs: number): void;
  decide(cost: number, nowMs: number): Decision;
}

interface RunningRequest {
  readonly cost: number;
  readonly spentAtMs: number;
}

/** Requests under limits with slots give back their slots when they end. */
function clientMeter(limits: readonly Limit[], runsMs: number): ClientMeter {
  const meter = createMeter(limits);
  if (!limits.some(holdsSlots)) {
    return { meter, release: () => {}, decide: (cost, nowMs) => meter.consume(cost, nowMs) };
  }
  const ttlMs = provisionalTtlMs(limits, 0);
  // All requests run equally long, so that they end in the order in which they began.
  const running: RunningRequest[] = [];
  let ended = 0;
  return {
    meter,
    release(nowMs) {
      for (let next = running[ended]; next !== undefined; next = running[++ended]) {
        const endsAtMs = next.spentAtMs + runsMs;
        if (endsAtMs > nowMs) return;
        // A slot is free when its lease expires, and all leases have expired at the ttl.
        const settled = { ...next, actualCost: next.cost, ttlMs };
        if (runsMs < ttlMs) meter.settle(settled, endsAtMs);
      }
    },
    decide(cost, nowMs) {
      const decision = meter.reserve({ cost, ttlMs }, nowMs);
      if (decision.allowed) running.push({ cost, spentAtMs: meter.seenMs });
      return decision;
    },
  };
}

/** Decides the requests of one client of a run once more. */
export class ClientReplay {
  readonly #run: LaneRun;
  readonly #key: number;
  readonly #client: ClientMeter;
  readonly #changesByDenial: boolean;

  /** @param key the index of the client */
  constructor(run: LaneRun, limits: readonly Limit[], key: number) {
    this.#run = run;
    this.#key = key;
    this.#client = clientMeter(limits, run.runsMs);
    this.#changesByDenial = limits.some(changesByDenial);
  }

  /** Whether the request of a row is of the client and changes its counters. */
  changesBy(row: number): boolean {
    const { key, outcome: outcomes } = this.#run;
    return key[row] === this.#key && (this.#changesByDenial || outcomes[row] !== outcome.denied);
  }

  decide(row: number): Decision {
    const nowMs = this.#releasedAt(this.#run.atMs[row] ?? 0);
    return this.#client.decide(this.#run.cost[row] ?? 0, nowMs);
  }

  /** Decides the requests of the client before a row. */
  decideUntil(end: number): void {
    for (let row = 0; row < end; row++) if (this.changesBy(row)) this.decide(row);
  }

  /** Decides a request without charging it. Instants count from the start of the run. */
  look(cost: number, atMs: number): Decision {
    const nowMs = this.#releasedAt(atMs);
    return this.#client.meter.look(cost, nowMs);
  }

  account(atMs: number): readonly UsageBreakdown[] {
    return this.#client.meter.account(this.#releasedAt(atMs));
  }

  #releasedAt(atMs: number): number {
    const nowMs = this.#run.startMs + atMs;
    this.#client.release(nowMs);
    return nowMs;
  }
}

interface OrderedRequest {
  readonly atMs: number;
  /** The row of `Arrivals`. */
  readonly arrival: number;
  /** 0 for a first request, `n` for its nth retry. */
  readonly retry: number;
}

interface OrderedRequests {
  /** The next request to decide; null at the end. */
  next(): OrderedRequest | null;
  /** Lets the client of a denied request decide whether it comes again. */
  deny(request: OrderedRequest, decision: Decision): void;
}

/**
 * First requests, one client after the other. Clients have counters of their own, and a client whose requests are all
 * decided needs no memory, which a log of many clients makes faster.
 */
function requestsByClient({ atMs, key }: Arrivals): OrderedRequests {
  const rows = rowsByKey(key, () => true);
  let next = 0;
  return {
    next() {
      const arrival = rows[next++];
      return arrival === undefined ? null : { atMs: atMs[arrival] ?? 0, arrival, retry: 0 };
    },
    deny: () => {},
  };
}

/** First requests and retries in order of time. */
function requestsInOrder({ atMs }: Arrivals, { retries, seed }: Scenario): OrderedRequests {
  const queue = timeQueue<OrderedRequest & { readonly order: number }>();
  let arrival = 0;
  const { kind, pauseMs, attempts } = retries;
  return {
    next() {
      const arrivesMs = atMs[arrival] ?? Infinity;
      if (queue.earliestMs() < arrivesMs) return queue.take() ?? null;
      return arrivesMs === Infinity ? null : { atMs: arrivesMs, arrival: arrival++, retry: 0 };
    },
    deny({ atMs: deniedMs, arrival: row, retry }, decision) {
      if (kind === "none" || retry >= attempts) return;
      const jitterMs = kind === "jitter" ? randomAt(seed, row, retry) * pauseMs : 0;
      const fitsAfterMs = denialWaitMs(decision) ?? neverMs;
      const waitMs = kind === "ignore" ? pauseMs : obeyedWaitMs(fitsAfterMs) + Math.floor(jitterMs);
      // The client sends the request again after its denial, even without a pause.
      const sentMs = deniedMs + Math.max(1, waitMs);
      if (sentMs !== neverMs) queue.add({ atMs: sentMs, order: row, arrival: row, retry: retry + 1 });
    },
  };
}
