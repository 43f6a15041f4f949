/** The arrivals of one key with all that follows from them: settlements and renewals of reservations, and retries. */
import { denialWaitMs, obeyedWaitMs, timeQueue } from "./clients.ts";
import type { DecisionTally } from "./decision-tally.ts";
import { arrivalOutcomes, type ArrivalReservation, isDeniedOutcome, mostWithin, type Timelines } from "./timelines.ts";
import { createMeter, type Decision, holdsSlots } from "../../strategies/index.ts";

interface TypicalReservation {
  readonly ttlMs: number;
  /** From the arrival to the settlement; null when nothing was settled. */
  readonly runsMs: number | null;
  /** The actual cost as a share of the reserved cost. */
  readonly costShare: number;
}

/**
 * Reservations of requests that the recording denied. Nothing states how long they would have run, or what they would have
 * cost. They are assumed to be like the median of the key's own settled reservations, or of all keys if it has none.
 * Medians are only computed for keys that need them.
 */
export class AssumedReservations {
  readonly #timelines: Timelines;
  #ofAll: TypicalReservation | null = null;
  /** The key of `#ofKey`. */
  #key = -1;
  #ofKey: TypicalReservation | null = null;

  constructor(timelines: Timelines) {
    this.#timelines = timelines;
  }

  /**
   * The reservation that a denied row would have made; null if the timelines have no reservation.
   * @param ttlMs the ttl of the row's reservation, if it is known
   */
  of(key: number, row: number, ttlMs?: number): ArrivalReservation | null {
    const { atMs, cost, firstRow, reservations } = this.#timelines;
    if (reservations.size === 0) return null;
    this.#ofAll ??= typicalReservation(this.#timelines, 0, atMs.length);
    if (this.#key !== key) {
      this.#key = key;
      const [from = 0, to = 0] = [firstRow[key], firstRow[key + 1]];
      this.#ofKey = typicalReservation(this.#timelines, from, to);
    }
    const typical = this.#ofKey?.runsMs == null ? this.#ofAll : this.#ofKey;
    if (typical === null) return null;
    const { runsMs, costShare } = typical;
    return {
      ttlMs: ttlMs ?? typical.ttlMs,
      settledAtMs: runsMs === null ? null : (atMs[row] ?? 0) + runsMs,
      settledCost: Math.round((cost[row] ?? 0) * costShare),
    };
  }
}

/** Null without a reservation among the rows. */
function typicalReservation(
  { reservations, atMs, cost }: Timelines,
  from: number,
  to: number,
): TypicalReservation | null {
  const ttlsMs = new Float64Array(to - from);
  const runsMs = new Float64Array(to - from);
  const costShares = new Float64Array(to - from);
  let [reserved, settled] = [0, 0];
  for (let row = from; row < to; row++) {
    const reservation = reservations.get(row);
    if (reservation === undefined) continue;
    const { ttlMs, settledAtMs, settledCost } = reservation;
    ttlsMs[reserved++] = ttlMs;
    if (settledAtMs === null) continue;
    runsMs[settled] = settledAtMs - (atMs[row] ?? 0);
    costShares[settled++] = settledCost / Math.max(1, cost[row] ?? 0);
  }
  const ttlMs = median(ttlsMs.subarray(0, reserved));
  if (ttlMs === null) return null;
  const costShare = median(costShares.subarray(0, settled)) ?? 1;
  return { ttlMs, runsMs: median(runsMs.subarray(0, settled)), costShare };
}

/** The lower one of two in the middle. */
const median = (values: Float64Array): number | null => values.toSorted()[(values.length - 1) >> 1] ?? null;

/** How many decisions may run before the next yield. */
export interface StepBudget {
  left: number;
}

interface Request {
  readonly kind: "request";
  readonly atMs: number;
  readonly order: number;
  readonly row: number;
  /** Null for a plain spend. */
  readonly reservation: ArrivalReservation | null;
  /** 0 for an arrival, n for its nth retry. */
  readonly retry: number;
}

interface OpenReservation {
  readonly cost: number;
  readonly actualCost: number;
  readonly ttlMs: number;
  readonly spentAtMs: number;
  readonly settledAtMs: number;
  /** When the reservation was made or last renewed. */
  readonly heldAtMs: number;
}

interface ReservationEvent {
  readonly kind: "renew" | "settle";
  readonly atMs: number;
  readonly order: number;
  readonly open: OpenReservation;
}

const mostRetries = 10;
const mostRetriesOfKey = 100_000;
const isDenied = arrivalOutcomes.map(isDeniedOutcome);

export class KeyEvents {
  readonly #tally: DecisionTally;
  readonly #timelines: Timelines;
  readonly #assumed: AssumedReservations;
  readonly #meter;
  readonly #queue = timeQueue<Request | ReservationEvent>();
  readonly #key: number;
  /** A reservation that is held for longer is renewed. */
  readonly #leaseMs: number;
  /** The next row to decide. */
  #row: number;
  readonly #end: number;
  #retries = 0;
  /** The instants and actual costs of admitted requests. */
  readonly #admittedAtMs: number[] = [];
  readonly #admittedUnits: number[] = [];

  constructor(tally: DecisionTally, assumed: AssumedReservations, key: number) {
    const { timelines, limits } = tally;
    const [from = 0, to = 0] = timelines.firstRow.subarray(key, key + 2);
    this.#tally = tally;
    this.#timelines = timelines;
    this.#assumed = assumed;
    this.#meter = createMeter(limits);
    this.#key = key;
    this.#leaseMs = Math.min(...limits.filter(holdsSlots).map(({ windowMs }) => windowMs));
    this.#row = from;
    this.#end = to;
  }

  /** Yields the number of rows that are decided, each time the budget is spent. */
  *decide(budget: StepBudget): Generator<number, void> {
    for (let decided = this.#decideInstant(); decided > 0; decided = this.#decideInstant()) {
      budget.left -= decided;
      if (budget.left <= 0) yield this.#row;
    }
    this.#measure();
  }

  /** Handles all events of the next instant. Returns their number; 0 at the end. */
  #decideInstant(): number {
    const { atMs: arrivalsMs } = this.#timelines;
    const arrivesMs = this.#row < this.#end ? (arrivalsMs[this.#row] ?? 0) : Infinity;
    const nowMs = Math.min(arrivesMs, this.#queue.earliestMs());
    if (nowMs === Infinity) return 0;
    const requests: Request[] = [];
    for (; this.#row < this.#end && arrivalsMs[this.#row] === nowMs; this.#row++) {
      const row = this.#row;
      const reservation = this.#reservationOf(row);
      requests.push({ kind: "request", atMs: nowMs, order: row, row, reservation, retry: 0 });
    }
    const settled: OpenReservation[] = [];
    let events = 0;
    for (; this.#queue.earliestMs() === nowMs; events++) {
      const event = this.#queue.take();
      if (event?.kind === "request") requests.push(event);
      else if (event?.kind === "renew") this.#renew(event.open, nowMs);
      else if (event !== undefined) settled.push(event.open);
    }
    events += requests.length;
    if (settled.length > 0 || this.#settlesAtOnce(requests)) {
      this.#decideTogether(requests, settled, nowMs);
    } else {
      for (const request of requests) this.#decide(request);
    }
    return events;
  }

  /** Whether a request is settled within the millisecond of its arrival. */
  #settlesAtOnce(requests: readonly Request[]): boolean {
    const { atMs } = this.#timelines;
    return requests.some(({ row, reservation }) => (reservation?.settledAtMs ?? Infinity) <= (atMs[row] ?? 0));
  }

  /**
   * The recording does not state the order of events within a millisecond. They are replayed in an order in which they
   * could have had their recorded outcomes: allowed requests as soon as they fit, denied requests as soon as they do
   * not fit, and a settlement only when nothing else can be done.
   */
  #decideTogether(requests: readonly Request[], settled: OpenReservation[], nowMs: number): void {
    const { cost, outcome } = this.#timelines;
    const wasDenied = ({ row, retry }: Request): boolean => retry === 0 && isDenied[outcome[row] ?? 0] === true;
    const fits = ({ row }: Request): boolean => this.#meter.look(cost[row] ?? 0, nowMs).allowed;
    let allowed = requests.filter((request) => !wasDenied(request));
    let denied = requests.filter(wasDenied);
    for (;;) {
      allowed = allowed.filter((request) => {
        if (!fits(request)) return true;
        const open = this.#decide(request);
        if (open !== null) settled.push(open);
        return false;
      });
      denied = denied.filter((request) => {
        const isLeft = fits(request);
        if (!isLeft) this.#decide(request);
        return isLeft;
      });
      if (settled.length === 0) break;
      // While allowed requests wait, the settlement with the greatest refund comes next; otherwise the one with the
      // greatest additional charge.
      settled.sort((a, b) => a.actualCost - a.cost - (b.actualCost - b.cost));
      const next = allowed.length > 0 ? settled.shift() : settled.pop();
      if (next !== undefined) this.#meter.settle(next, nowMs);
    }
    for (const request of [...allowed, ...denied]) {
      const open = this.#decide(request);
      if (open !== null) this.#meter.settle(open, nowMs);
    }
  }

  /** Decides the request. Returns its reservation if it is settled at the same instant. */
  #decide(request: Request): OpenReservation | null {
    const tally = this.#tally;
    const { atMs, row, retry, reservation } = request;
    const cost = this.#timelines.cost[row] ?? 0;
    const decision =
      reservation === null
        ? this.#meter.consume(cost, atMs)
        : this.#meter.reserve({ cost, ttlMs: reservation.ttlMs }, atMs);
    if (retry > 0) tally.sendRetry(atMs);
    if (!decision.allowed) {
      this.#deny(request, decision);
      return null;
    }
    if (retry > 0) tally.admitRetry(atMs, atMs - (this.#timelines.atMs[row] ?? 0), decision.delayMs);
    else {
      tally.admit(atMs);
      if (decision.delayMs > 0) tally.delay(row, decision.delayMs);
    }
    this.#offerSlots(decision);
    const isSettled = reservation !== null && reservation.settledAtMs !== null;
    this.#admittedAtMs.push(atMs);
    this.#admittedUnits.push(isSettled ? reservation.settledCost : cost);
    return reservation === null || cost === 0 ? null : this.#open(reservation, row, atMs);
  }

  #reservationOf(row: number): ArrivalReservation | null {
    const { reservations, outcome } = this.#timelines;
    const recorded = reservations.get(row);
    if (isDenied[outcome[row] ?? 0] !== true) return recorded ?? null;
    if (recorded === undefined && this.#leaseMs === Infinity) return null;
    return this.#assumed.of(this.#key, row, recorded?.ttlMs);
  }

  /** Plans the settlement of a reservation. Returns it if it is settled at once. */
  #open(reservation: ArrivalReservation, row: number, nowMs: number): OpenReservation | null {
    const { ttlMs, settledAtMs, settledCost } = reservation;
    // Without a settlement, the reserved cost counts as spent until the ttl ends.
    if (settledAtMs === null) return null;
    const { cost, atMs } = this.#timelines;
    const spentAtMs = this.#meter.seenMs;
    const open = {
      cost: cost[row] ?? 0,
      actualCost: settledCost,
      ttlMs,
      spentAtMs,
      settledAtMs: nowMs + settledAtMs - (atMs[row] ?? 0),
      heldAtMs: spentAtMs,
    };
    if (open.settledAtMs <= nowMs) return open;
    this.#plan(open);
    return null;
  }

  /** The next event of an open reservation. */
  #plan(open: OpenReservation): void {
    const { settledAtMs, spentAtMs, heldAtMs, ttlMs } = open;
    const leaseMs = Math.min(ttlMs, this.#leaseMs);
    // The Worker renews a reservation when half of its lease has passed.
    const renewsAtMs = heldAtMs + Math.max(1, Math.floor(leaseMs / 2));
    const isRenewed = heldAtMs + leaseMs <= settledAtMs;
    this.#queue.add({
      kind: isRenewed ? "renew" : "settle",
      atMs: isRenewed ? renewsAtMs : settledAtMs,
      order: spentAtMs,
      open,
    });
  }

  #renew(open: OpenReservation, nowMs: number): void {
    this.#meter.renew(open, nowMs);
    this.#plan({ ...open, heldAtMs: nowMs });
  }

  #deny(request: Request, decision: Decision): void {
    const tally = this.#tally;
    const { atMs, row, retry } = request;
    const waitMs = denialWaitMs(decision);
    if (retry === 0) tally.denyArrival(row, waitMs);
    else tally.denyRetry(atMs, waitMs);
    if (!tally.obeys) return;
    if (waitMs === null || retry === mostRetries || this.#retries === mostRetriesOfKey) {
      tally.abandon(row);
      return;
    }
    this.#retries++;
    const order = this.#timelines.atMs.length + row;
    this.#queue.add({ ...request, atMs: atMs + obeyedWaitMs(waitMs), order, retry: retry + 1 });
  }

  /** For slots, the most that are held at one instant count. */
  #offerSlots(decision: Decision): void {
    if (this.#leaseMs === Infinity) return;
    for (const [index, limit] of this.#tally.limits.entries()) {
      const { capacity = 0, remaining = 0 } = decision.limits[index] ?? {};
      if (holdsSlots(limit)) this.#tally.offerMost(index, capacity - remaining);
    }
  }

  /** For all other limits, the most that is admitted within any window counts. */
  #measure(): void {
    const atMs = Float64Array.from(this.#admittedAtMs);
    const units = Float64Array.from(this.#admittedUnits);
    for (const [index, limit] of this.#tally.limits.entries()) {
      if (holdsSlots(limit)) continue;
      const rows = { from: 0, to: atMs.length, windowMs: limit.windowMs, isIncluded: null };
      this.#tally.offerMost(index, mostWithin(atMs, units, rows));
    }
  }
}
