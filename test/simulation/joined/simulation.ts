/**
 * Runs a schedule of requests with joined checks, and checks the invariants. The limiter client and the limiter are the
 * real code.
 */
import type { Policy } from "../../../src/policy/policy.ts";
import { scopeOf } from "../../fakes/isolate.ts";
import { decideByNewestRules } from "../../../src/limiter/isolate/newer-rules-retry.ts";
import { LimiterClient } from "../../../src/limiter/isolate/client.ts";
import type { Outcome, Spend } from "../../../src/limiter/isolate/outcome.ts";
import type { CheckCall, StaleRules } from "../../../src/limiter/protocol.ts";
import { strategies } from "../../../src/strategies/index.ts";
import type { Random } from "../../random.ts";
import { mostIn } from "../admitted.ts";
import { Checks } from "../control/checks.ts";
import { startMs, World } from "../world.ts";
import type { JoinedChecksOfRun, JoinedInvariant } from "./invariants.ts";
import { Ledger, type Situation } from "./ledger.ts";
import { Network } from "./network.ts";
import { type PolicyName, policyOfRequest, requestOf, templateOf } from "./policies.ts";
import { clockOfRequests, RequestContext } from "./request-context.ts";
import type { JoinedSchedule, ScheduledRequest } from "./schedules.ts";

/** The longest wait of a check before it is sent: a share of the round trip, but between `leastMs` and `mostMs`. */
const longestWait = { leastMs: 5, mostMs: 50, share: 1 / 4 };

/** Time after the last request, longer than all timeouts, delays and refunds. */
const drainMs = 12_000;

interface Answer {
  readonly atMs: number;
  readonly order: number;
  readonly outcomes: readonly Outcome[];
  readonly isRefused: boolean;
}

interface Request {
  readonly number: number;
  readonly planned: ScheduledRequest;
  readonly context: RequestContext;
  readonly startedAtMs: number;
  firstSentAtMs: number | null;
  /** For each key, the position of its first call among all calls. */
  readonly firstSent: Map<string, number>;
  answer: Answer | null;
}

/** How many calls contain the checks of one request, of two requests, and so on, by the number of requests. */
export type CallSizes = Map<number, number>;

export interface Played {
  readonly checks: JoinedChecksOfRun;
  readonly sizes: CallSizes;
  readonly situations: ReadonlyMap<Situation, number>;
}

class Isolate {
  readonly client: LimiterClient;
  /** The version of the policy rules that this isolate has. */
  version: number;

  constructor(client: LimiterClient, version: number) {
    this.client = client;
    this.version = version;
  }

  adopt(rules: readonly StaleRules[]): void {
    for (const { version } of rules) this.version = Math.max(this.version, version);
  }
}

class Simulation {
  readonly checks: JoinedChecksOfRun = new Checks<JoinedInvariant>();
  readonly sizes: CallSizes = new Map();
  readonly #schedule: JoinedSchedule;
  readonly #world = new World();
  readonly #ledger = new Ledger();
  readonly #network: Network;
  readonly #isolates: readonly Isolate[];
  readonly #requests: Request[] = [];
  #sentOrder = 0;

  constructor(schedule: JoinedSchedule, random: Random) {
    this.#schedule = schedule;
    const world = this.#world;
    this.#network = new Network({
      world,
      random,
      faults: schedule.faults,
      checks: this.checks,
      ledger: this.#ledger,
      onSent: (calls) => this.#sent(calls),
      contextOf: (call) => this.#requestOf(call)?.context,
    });
    this.#isolates = schedule.skewsMs.map((aheadMs, index) => {
      const clock = clockOfRequests(world.clock(aheadMs));
      const { joinsChecks } = schedule;
      return new Isolate(new LimiterClient(this.#network.namespace(), clock, null, { joinsChecks }), index + 1);
    });
  }

  get situations(): ReadonlyMap<Situation, number> {
    return this.#ledger.situations;
  }

  async play(): Promise<void> {
    const { requests, events } = this.#schedule;
    for (const request of requests) {
      this.#world.at(startMs + request.atMs, () => this.#begin(request));
    }
    let lastAtMs = 0;
    for (const event of events) this.#world.at(startMs + event.atMs, () => this.#happen(event));
    for (const { atMs } of requests) lastAtMs = Math.max(lastAtMs, atMs);
    await this.#world.runUntil(startMs + lastAtMs + drainMs);
    this.#checkBounds();
    for (const request of this.#requests) this.#checkEnd(request);
  }

  #happen(event: JoinedSchedule["events"][number]): void {
    if (event.kind === "rules") {
      const isolate = this.#isolates[event.isolate];
      if (isolate !== undefined) isolate.version++;
      return;
    }
    this.#network.object(event.key).crash();
  }

  #begin(planned: ScheduledRequest): void {
    const { fate, fateAfterMs } = planned;
    const number = this.#requests.length + 1;
    const context = new RequestContext(number, () => this.#world.eventNumber, fate === "vanishes when woken");
    const startedAtMs = this.#world.nowMs;
    const request: Request = {
      number,
      planned,
      context,
      startedAtMs,
      firstSentAtMs: null,
      firstSent: new Map(),
      answer: null,
    };
    this.#requests.push(request);
    if (fate === "disconnects" || fate === "vanishes") {
      this.#world.at(startedAtMs + fateAfterMs, () => (fate === "vanishes" ? context.vanish() : context.answered()));
    }
    context.run(() => {
      const deciding = this.#decide(request);
      // Without waitUntil, the request may end early. Even then, other requests must get their replies.
      if (isAwaited(request)) context.waitUntil(deciding);
    });
  }

  async #decide(request: Request): Promise<void> {
    const { planned, context } = request;
    const isolate = this.#isolates[planned.isolate];
    if (isolate === undefined) return;
    const { client } = isolate;
    const { waitUntil } = context;
    const spends = (): Spend[] => planned.spends.map((each) => spendOf(request, each, isolate));
    let outcomes: readonly Outcome[];
    let isRefused = false;
    if (planned.kind === "batch")
      outcomes = (
        await client.admitEach(
          spends().map((spend) => [spend]),
          scopeOf(waitUntil),
        )
      ).flatMap((result) => result.outcomes);
    else if (planned.kind === "look") {
      outcomes = await decideByNewestRules(isolate, waitUntil, (scope) =>
        Promise.all(
          spends()
            .slice(0, 1)
            .map((spend) => client.look(spend, scope)),
        ),
      );
    } else {
      const admission = await decideByNewestRules(isolate, waitUntil, (scope) => client.admit(spends(), scope));
      ({ outcomes, isRefused } = admission);
    }
    // The platform does not run code of a request that has ended.
    if (context.isGone) return;
    const atMs = this.#world.nowMs;
    request.answer = { atMs, order: this.#sentOrder, outcomes, isRefused };
    context.answered();
  }

  #requestOf({ charges: [charge] }: CheckCall): Request | undefined {
    return charge === undefined ? undefined : this.#requests[requestOf(charge) - 1];
  }

  #sent(calls: readonly CheckCall[]): void {
    if (calls.length === 0) return;
    const requests = new Set(calls.map((call) => this.#requestOf(call)));
    this.#sentOrder++;
    for (const call of calls) {
      const request = this.#requestOf(call);
      if (request === undefined) continue;
      request.firstSentAtMs ??= this.#world.nowMs;
      if (!request.firstSent.has(call.key)) request.firstSent.set(call.key, this.#sentOrder);
    }
    this.sizes.set(requests.size, (this.sizes.get(requests.size) ?? 0) + 1);
  }

  #checkBounds(): void {
    for (const { policy, key, admitted } of this.#ledger.admitted()) {
      const { limits, durability, objects } = templateOf(policy as PolicyName);
      const [limit] = limits;
      const isLossless =
        durability === "confirmed" ||
        (objects.shards === null
          ? this.#network.object(key).crashes === 0
          : [...this.#network.objects.values()].every(({ crashes }) => crashes === 0));
      const strategy = strategies.get(limit?.strategy ?? "");
      if (limit === undefined || strategy === undefined || !isLossless) continue;
      const bound = strategy.mostPerWindow(strategy.complete(limit));
      const most = mostIn(limit.windowMs, admitted);
      this.#check(
        "decisions: a key admits no more in any window than the strategy's bound",
        most <= bound,
        () => `${policy} ${key} admitted ${most} units in a window, and the bound is ${bound}`,
      );
    }
  }

  #checkEnd(request: Request): void {
    const { number, planned, context, answer } = request;
    const about = (): string => `request ${number} ${JSON.stringify(planned)}`;
    this.#checkWaits(request, about);
    const { firstSentAtMs } = request;
    const isUnsent = answer !== null && firstSentAtMs === null;
    this.#ledger.note("a request that was answered without being sent", isUnsent);
    const isLost = answer === null && firstSentAtMs !== null && planned.fate.startsWith("vanishes");
    this.#ledger.note("a request that vanished after its check was sent", isLost);
    if (answer === null && !isAwaited(request)) return;
    this.#check("ends: every request has an answer", answer !== null, about);
    const timers = context.openTimers + context.timersLeft;
    this.#check("ends: no timer of a request is left", timers === 0, about);
    if (answer === null) return;
    this.#check(
      "charges: a request is not sent after its answer",
      [...request.firstSent.values()].every((order) => order <= answer.order),
      about,
    );
    // Under rules, a request may fall back to onError: newer rules may arrive during its second attempt, which is the
    // last.
    if (this.#schedule.isCalm && !hasRules(planned)) {
      const isDecided = answer.outcomes.every(({ kind }) => kind === "decided");
      this.#check("waits: without faults, an object decides every request", isDecided, about);
    }
    if (planned.kind !== "look") this.#checkCharges(request, answer, about);
  }

  #checkWaits(request: Request, about: () => string): void {
    const { planned, startedAtMs, firstSentAtMs, answer } = request;
    if (answer !== null) {
      const groups = planned.kind === "admit" ? new Set(planned.spends.map(({ key }) => key)).size : 1;
      const tookMs = answer.atMs - startedAtMs;
      this.#check(
        "waits: a request is answered by its deadline",
        tookMs <= groups * planned.timeoutMs,
        () => `${about()} took ${tookMs} ms`,
      );
    }
    if (firstSentAtMs === null || (answer === null && !isAwaited(request))) return;
    const waitedMs = firstSentAtMs - startedAtMs;
    const mostMs = this.#schedule.joinsChecks ? this.#longestWaitMs() : 0;
    this.#check(
      "waits: a check is sent within the longest wait",
      waitedMs <= mostMs,
      () => `${about()} was sent after ${waitedMs} ms, expected at most ${mostMs} ms`,
    );
  }

  #longestWaitMs(): number {
    const { maximumDelayMs, slow } = this.#schedule.faults;
    if (slow > 0) return longestWait.mostMs;
    const roundTripMs = 2 * maximumDelayMs;
    const shareMs = Math.ceil(roundTripMs * longestWait.share);
    return Math.min(Math.max(shareMs, longestWait.leastMs), longestWait.mostMs);
  }

  #checkCharges(request: Request, answer: Answer, about: () => string): void {
    const { number, planned } = request;
    for (const [index, { key, policy, cost }] of planned.spends.entries()) {
      const outcome = answer.outcomes[index];
      const { booked, arrived, refundsSent } = this.#ledger.charged(number, key, policy);
      const net = booked - refundsSent;
      // If the reply to the first of two attempts is lost, its charge cannot be refunded.
      const unknown = hasRules(planned) ? booked - arrived : 0;
      const isNet = (least: number): boolean => net >= least && net <= least + unknown;
      const describe = (): string =>
        `${about()} ${policy} ${key}: booked ${booked}, arrived ${arrived}, refunded ${refundsSent}`;
      if (outcome === undefined || cost === 0) {
        this.#check("charges: a denied request is charged nothing", isNet(0), describe);
        continue;
      }
      const isAllowed = outcome.decision?.allowed === true;
      if (outcome.kind === "decided") {
        const isCharged = isAllowed && !answer.isRefused;
        if (isCharged) {
          this.#check("charges: an admitted request is charged exactly once", isNet(1), describe);
        } else this.#check("charges: a denied request is charged nothing", isNet(0), describe);
        continue;
      }
      this.#check(
        "charges: a request that its failure mode answers is charged at most once",
        net >= 0 && net <= 1 + unknown,
        describe,
      );
      const isRefused = answer.isRefused || (planned.kind === "batch" && outcome.kind === "closed");
      const expected = isRefused ? arrived : 0;
      // A request may vanish before it refunds its charges. With two attempts, the refund of the first does not count
      // as a late reply.
      const isRepeated = hasRules(planned);
      if (planned.fate.startsWith("vanishes") || (isRepeated && !isRefused)) continue;
      this.#check("charges: a late reply to a refused request is refunded", refundsSent === expected, describe);
    }
  }

  #check(invariant: JoinedInvariant, holds: boolean, describe: () => string): void {
    this.checks.check(invariant, holds, describe);
  }
}

const hasRules = ({ spends }: ScheduledRequest): boolean => spends.some(({ policy }) => policy === "ruled");

/** Whether the request stays alive until its answer. */
const isAwaited = ({ number, planned: { fate } }: Pick<Request, "number" | "planned">): boolean =>
  fate === "stays" || (fate === "disconnects" && number % 2 === 0);

function spendOf(
  { number, planned }: Request,
  { policy, key, cost }: ScheduledRequest["spends"][number],
  { version }: Isolate,
): Spend {
  const { timeoutMs } = planned;
  const each: Policy = policyOfRequest(policy, number, { timeoutMs, version });
  return { policy: each, partitionKey: key, cost };
}

/** @param random draws the delays and faults of calls */
export async function play(schedule: JoinedSchedule, random: Random): Promise<Played> {
  const simulation = new Simulation(schedule, random);
  await simulation.play();
  return simulation;
}
