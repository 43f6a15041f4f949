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
import { type Columns, emptyColumns, firstRows, neverMs, outcome, rowsByKey } from "./columns.ts";
import type { Lane } from "./lanes.ts";
import type { Scenario } from "./scenario.ts";
import { type LaneSummary, summaryOf } from "./summary.ts";
import type { Arrivals } from "./traffic.ts";

/** The decisions of one lane in order of time, retries included. */
export interface LaneRun extends Lane, Columns {
  readonly startMs: number;
  readonly keys: readonly string[];
  readonly runsMs: number;
  /** Whether the run ended early, because it reached the most rows of a lane. */
  readonly isCut: boolean;
  readonly summary: LaneSummary;
}

/** The most rows of a run. With more retries, a browser could run out of memory. */
export const mostRows = 500_000;

/** The rows that a run decides in one step, which takes some milliseconds. */
const rowsPerStep = 5_000;

const rulesOf = ({ limits }: Pick<Lane, "limits">): readonly Limit[] => limits.map(({ rule }) => rule);

/** Runs a lane in short steps. Each step yields the share of the requests that are decided, from 0 to 1. */
export function* runLane({ lane, limits }: Lane, arrivals: Arrivals, scenario: Scenario): Generator<number, LaneRun> {
  const { startMs, keys, atMs } = arrivals;
  const { runsMs } = scenario;
  const isByClient = scenario.retry === "none";
  const requests = isByClient ? requestsByClient(arrivals) : requestsInOrder(arrivals, scenario);
  const clientOf = clientMeters(rulesOf({ limits }), runsMs, isByClient);
  const triesEach = isByClient ? 1 : 1 + scenario.attempts;
  const columns = emptyColumns(Math.min(mostRows, atMs.length * triesEach));
  let [arrived, decided, isCut] = [0, 0, false];
  /**
   * Decides some rows. Returns whether any requests are left. JavaScript engines optimize a plain function better than
   * a generator.
   */
  const decideRows = (): boolean => {
    for (let row = 0; row < rowsPerStep; row++) {
      const request = requests.next();
      isCut = request !== null && decided === mostRows;
      if (request === null || isCut) return false;
      const { arrival, retry } = request;
      const cost = arrivals.cost[arrival] ?? 0;
      const key = arrivals.key[arrival] ?? 0;
      const decision = clientOf(key).decide(cost, startMs + request.atMs);
      writeRow(columns, isByClient ? arrival : decided, { ...request, key, cost }, decision);
      if (retry === 0) arrived++;
      decided++;
      if (!decision.allowed) requests.deny(request, decision);
    }
    return true;
  };
  while (decideRows()) yield arrived / atMs.length;
  const rows = firstRows(columns, decided);
  return { lane, limits, startMs, keys, runsMs, ...rows, isCut, summary: summaryOf(rows, limits, runsMs) };
}

/** Returns the counters of each client. A client whose requests are all decided needs no memory. */
function clientMeters(rules: readonly Limit[], runsMs: number, isByClient: boolean): (key: number) => ClientMeter {
  const clients = new Map<number, ClientMeter>();
  return (key) => {
    const known = clients.get(key);
    if (known !== undefined) return known;
    if (isByClient) clients.clear();
    const client = new ClientMeter(rules, runsMs);
    clients.set(key, client);
    return client;
  };
}

type DecidedRequest = OrderedRequest & { readonly key: number; readonly cost: number };

function writeRow(columns: Columns, row: number, request: DecidedRequest, decision: Decision): void {
  const { allowed, delayMs, retryAfterMs } = decision;
  columns.atMs[row] = request.atMs;
  columns.key[row] = request.key;
  columns.cost[row] = request.cost;
  columns.arrival[row] = request.arrival;
  columns.retry[row] = request.retry;
  columns.remaining[row] = leastRemaining(decision);
  if (allowed) {
    columns.outcome[row] = delayMs > 0 ? outcome.delayed : outcome.allowed;
    columns.waitMs[row] = delayMs;
  } else {
    columns.outcome[row] = outcome.denied;
    columns.waitMs[row] = retryAfterMs ?? neverMs;
    columns.deniedBy[row] = denyingBits(decision);
  }
}

export function leastRemaining({ limits }: Decision): number {
  let least = Infinity;
  for (const { remaining } of limits) if (remaining < least) least = remaining;
  return least;
}

function denyingBits({ limits }: Decision): number {
  let bits = 0;
  for (const [index, { allowed }] of limits.entries()) if (!allowed) bits |= 1 << index;
  return bits;
}

interface RunningRequest {
  readonly cost: number;
  readonly spentAtMs: number;
}

/** The counters of one client. When a request ends, the client returns its slots. */
class ClientMeter {
  readonly #meter: Meter;
  readonly #runsMs: number;
  /** Null without limits with slots. */
  readonly #ttlMs: number | null;
  /** The requests in the order in which they began. They also end in this order, because all run equally long. */
  readonly #running: RunningRequest[] = [];
  #ended = 0;

  constructor(limits: readonly Limit[], runsMs: number) {
    this.#meter = createMeter(limits);
    this.#runsMs = runsMs;
    this.#ttlMs = limits.some(holdsSlots) ? provisionalTtlMs(limits, 0) : null;
  }

  decide(cost: number, nowMs: number): Decision {
    if (this.#ttlMs === null) return this.#meter.consume(cost, nowMs);
    const meter = this.at(nowMs);
    const decision = meter.reserve({ cost, ttlMs: this.#ttlMs }, nowMs);
    if (decision.allowed) this.#running.push({ cost, spentAtMs: meter.seenMs });
    return decision;
  }

  /** The meter at an instant, after the slots of all ended requests are returned. */
  at(nowMs: number): Meter {
    const ttlMs = this.#ttlMs;
    for (let next = this.#running[this.#ended]; next !== undefined; next = this.#running[++this.#ended]) {
      const endsAtMs = next.spentAtMs + this.#runsMs;
      if (endsAtMs > nowMs) break;
      // Only a request that ends before the ttl returns its slot: later, its lease has expired and the slot is free.
      if (ttlMs !== null && this.#runsMs < ttlMs) {
        this.#meter.settle({ ...next, actualCost: next.cost, ttlMs }, endsAtMs);
      }
    }
    return this.#meter;
  }
}

/** Decides the requests of one client again, after the run. Instants count from the start of the run. */
export class ClientReplay {
  readonly #run: LaneRun;
  readonly #key: number;
  readonly #client: ClientMeter;
  readonly #changesByDenial: boolean;

  /** @param key the index of the client */
  constructor(run: LaneRun, key: number) {
    const rules = rulesOf(run);
    this.#run = run;
    this.#key = key;
    this.#client = new ClientMeter(rules, run.runsMs);
    this.#changesByDenial = rules.some(changesByDenial);
  }

  /** Whether the request of a row is of the client and changes its counters. */
  changesBy(row: number): boolean {
    const { key, outcome: outcomes } = this.#run;
    return key[row] === this.#key && (this.#changesByDenial || outcomes[row] !== outcome.denied);
  }

  decide(row: number): Decision {
    const { startMs, atMs, cost } = this.#run;
    return this.#client.decide(cost[row] ?? 0, startMs + (atMs[row] ?? 0));
  }

  decideUntil(end: number): void {
    for (let row = 0; row < end; row++) if (this.changesBy(row)) this.decide(row);
  }

  /** Decides a request without charging it. */
  look(cost: number, atMs: number): Decision {
    const nowMs = this.#run.startMs + atMs;
    return this.#client.at(nowMs).look(cost, nowMs);
  }

  account(atMs: number): readonly UsageBreakdown[] {
    const nowMs = this.#run.startMs + atMs;
    return this.#client.at(nowMs).account(nowMs);
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
  /** Notes a denial. Depending on the scenario, the client sends the request again. */
  deny(request: OrderedRequest, decision: Decision): void;
}

/**
 * First requests without retries, one client after the other. Each client has its own counters, and these can be freed
 * after its last request, which makes logs with many clients faster.
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
function requestsInOrder({ atMs }: Arrivals, { retry: kind, pauseMs, attempts, seed }: Scenario): OrderedRequests {
  const queue = timeQueue<OrderedRequest & { readonly order: number }>();
  let arrival = 0;
  return {
    next() {
      const arrivesMs = atMs[arrival] ?? Infinity;
      if (queue.earliestMs() < arrivesMs) return queue.take() ?? null;
      return arrivesMs === Infinity ? null : { atMs: arrivesMs, arrival: arrival++, retry: 0 };
    },
    deny({ atMs: deniedMs, arrival: row, retry }, decision) {
      if (retry >= attempts) return;
      const jitterMs = kind === "jitter" ? randomAt(seed, row, retry) * pauseMs : 0;
      const fitsAfterMs = denialWaitMs(decision) ?? neverMs;
      const waitMs = kind === "ignore" ? pauseMs : obeyedWaitMs(fitsAfterMs) + Math.floor(jitterMs);
      // The client sends the request again after its denial, even without a pause.
      const sentMs = deniedMs + Math.max(1, waitMs);
      if (sentMs !== neverMs) queue.add({ atMs: sentMs, order: row, arrival: row, retry: retry + 1 });
    },
  };
}
