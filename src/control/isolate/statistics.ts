/**
 * The statistics of an isolate: counts of its decisions since its last batch, and samples of its traffic and its denials.
 * Requests record their outcomes here after they are decided; beats take the counts to the control plane in batches.
 */
import type { PlainKey } from "../../policy/key.ts";
import { type Clock, platformClock } from "../../limiter/clock.ts";
import type { SettledCharge } from "../../limiter/protocol.ts";
import type { Decision } from "../../strategies/index.ts";
import {
  type KeyAlert,
  type OutcomeName,
  type PolicyCounts,
  type StatisticsBatch,
  type TailEntry,
  latencyBoundsMs,
  outcomeNames,
} from "../protocol.ts";
import { SpaceSaving } from "../space-saving.ts";
import { type SealCandidate, type SealedKey, WaitingBatches } from "./batches.ts";
import { type DecidedDenial, type DecidedKey, DenialSample, describedDenial } from "./denial-sample.ts";
import { isTooLong, type KeySealer, labelOf } from "./key-sealer.ts";
import { KeyAlerts, type SampledDenial, TailSample } from "./tail-and-alerts.ts";
import { RecordedKeys, TrafficSample, type TrafficSampleOptions } from "./traffic-sample.ts";

const sketchSlots = 256;
/** The most keys of one list, and of all lists in a batch, which then has at most about 20 KB. */
const mostListed = 20;
const mostListedInBatch = 256;

export interface StatisticsOptions {
  /** Null when `REVEAL` is off: plain keys are then never kept. */
  readonly sealer: KeySealer | null;
  /** The names of the policies in `ALERT_KEYS`. */
  readonly alertedPolicies: ReadonlySet<string>;
  /** Null when `SAMPLE` is off. Default: null. */
  readonly sample?: TrafficSampleOptions | null;
  /** Whether denials are logged: false when `DENIALS` is off. Default: false. */
  readonly logsDenials?: boolean;
  readonly clock?: Pick<Clock, "now">;
}

export class IsolateStatistics {
  /** Null when no traffic is sampled. */
  readonly traffic: TrafficSample | null;
  readonly #denials: DenialSample | null;
  readonly recorded = new RecordedKeys();
  readonly #sealer: KeySealer | null;
  /** The data center of the isolate, where all of its requests arrive; "" until a request has stated it. */
  #colo = "";
  readonly #now: Clock["now"];
  readonly #policies = new Map<string, PolicyStatistics>();
  #originFailures = 0;
  #requests = 0;
  readonly #waiting: WaitingBatches;
  readonly #alertedPolicies: ReadonlySet<string>;
  readonly #alerts = new KeyAlerts();
  #tail: TailSample | null = null;

  constructor({ sealer, alertedPolicies, sample, logsDenials, clock = platformClock }: StatisticsOptions) {
    this.traffic = sample ? new TrafficSample(sample) : null;
    this.#denials = logsDenials === true ? new DenialSample() : null;
    this.#sealer = sealer;
    this.#now = clock.now;
    this.#alertedPolicies = alertedPolicies;
    this.#waiting = new WaitingBatches(sealer);
  }

  /** Whether plain keys are sealed and sent. If not, callers need not pass them. */
  get revealsKeys(): boolean {
    return this.#sealer !== null;
  }

  /** Takes the data center from the `cf` object of a request. */
  locate(cf: unknown): void {
    if (this.#colo !== "" || typeof cf !== "object" || cf === null) return;
    const colo: unknown = Reflect.get(cf, "colo");
    if (typeof colo === "string") this.#colo = colo;
  }

  /**
   * Counts a request that enforced policies have decided. Call this once for each request.
   * @param deniedBy the policy that denied it; null for an admitted request
   */
  countRequest(deniedBy: string | null): void {
    this.#requests++;
    if (deniedBy !== null) this.countDenied(deniedBy);
  }

  /** Counts the denial of a request that is counted already. */
  countDenied(policy: string): void {
    this.#of(policy).countDeniedRequest();
  }

  /** Counts a decision without adding a key to the lists. */
  count(policy: string, outcome: OutcomeName): void {
    this.#of(policy).count(outcome);
  }

  /**
   * Counts a decision. Allocates nothing.
   * @param decision null when no limit has decided
   */
  record(
    policy: string,
    outcome: OutcomeName,
    key: DecidedKey,
    decision: Decision | null,
    plain: PlainKey | null,
  ): void {
    const counts = this.#of(policy);
    counts.count(outcome);
    this.recorded.count(policy, key.partitionKey, outcome, this.#now);
    const kept = this.#sealer === null ? null : plain;
    const isAllowed = decision === null ? isAllowedByName(outcome) : decision.allowed;
    // An exempt key spends nothing. Without a decision, it is unknown whether the key spent anything.
    if (!isAllowed) this.#recordDenial(counts, policy, outcome, key, decision, kept);
    else if (decision !== null && outcome !== "exempt") counts.countSpent(key, kept);
    if (decision === null || !isByLimits(outcome)) return;
    counts.countNearLimit(decision);
    if (this.#alertedPolicies.has(policy)) this.#alerts.note(policy, key.partitionKey, decision, this.#now());
  }

  /**
   * Logs a denial.
   * @param instance the instance of the same request's denial by another policy; null for its first denial
   * @returns the instance for the problem response; null when denials are not logged
   */
  logDenial(denial: DecidedDenial, instance: string | null): string | null {
    const { policy, key, reason } = denial;
    const group = { policy, key: key?.partitionKey ?? null, reason };
    const noted = this.#denials?.note(group, this.#now(), instance, () =>
      describedDenial(this.#sealer === null ? { ...denial, plain: null } : denial, this.#colo),
    );
    return noted ?? null;
  }

  #recordDenial(
    counts: PolicyStatistics,
    policy: string,
    outcome: OutcomeName,
    { partitionKey, cost }: DecidedKey,
    decision: Decision | null,
    plain: PlainKey | null,
  ): void {
    // `onError = "closed"` denies because of a failure, and not because of the key.
    if (outcome !== "fallback-closed") counts.countDenied(partitionKey, plain);
    if (this.#tail?.wants(policy) !== true) return;
    const limits = decision !== null && isByLimits(outcome) ? decision.limits : [];
    this.#tail.add({
      atMs: this.#now(),
      policy,
      outcome,
      violated: limits.filter(({ allowed }) => !allowed).map(({ name }) => name),
      retryAfterMs: decision?.retryAfterMs ?? null,
      cost,
      colo: this.#colo,
      key: partitionKey,
      plain,
    });
  }

  /** Counts the time that a decision of these policies has waited for an object. */
  answered(policies: readonly string[], latencyMs: number): void {
    for (const policy of policies) this.#of(policy).countLatency(latencyMs);
  }

  settled(partitionKey: string, charges: readonly SettledCharge[]): void {
    for (const { policy, cost, actualCost } of charges) {
      if (actualCost !== cost) this.#of(policy).countSettled(partitionKey, actualCost - cost);
    }
    if (this.traffic?.includes(partitionKey) === true) this.traffic.settled(partitionKey, charges);
  }

  originFailed(): void {
    this.#originFailures++;
  }

  /** Closes the open batch, and returns every batch that is not stored yet, the oldest first. */
  async batches(): Promise<readonly StatisticsBatch[]> {
    if (!this.#waiting.isFull) await this.#close();
    return this.#waiting.all(this.#now());
  }

  /** Discards the batches up to this number. */
  stored(seq: number): void {
    this.#waiting.stored(seq);
  }

  /** Collects denials only while a tail is open. */
  setTailed(isTailed: boolean): void {
    if (!isTailed) this.#tail = null;
    else this.#tail ??= new TailSample();
  }

  /** Removes and returns the sampled denials, at most 20. */
  async tail(): Promise<readonly TailEntry[]> {
    const nowMs = this.#now();
    const denials = this.#tail?.drain() ?? [];
    return Promise.all(denials.map((denial) => this.#tailEntry(denial, nowMs)));
  }

  /** Removes and returns the alerts since the last call. */
  alerts(): readonly KeyAlert[] {
    return this.#alerts.drain();
  }

  #of(policy: string): PolicyStatistics {
    const known = this.#policies.get(policy);
    if (known !== undefined) return known;
    const created = new PolicyStatistics();
    this.#policies.set(policy, created);
    return created;
  }

  async #close(): Promise<void> {
    const counted = [...this.#policies].filter(([, each]) => each.hasCounts);
    const sampled = this.traffic?.drain() ?? null;
    const denials = this.#denials?.drain(this.#now()) ?? null;
    const recorded = this.recorded.drain();
    if (counted.length === 0 && this.#originFailures === 0 && sampled === null && denials === null) return;
    const lists = counted.reduce((sum, [, each]) => sum + each.lists, 0);
    const share = Math.max(1, Math.min(mostListed, Math.floor(mostListedInBatch / Math.max(1, lists))));
    const drained = counted.map(([policy, each]) => [policy, each.drain(policy, share)] as const);
    const policies = Object.fromEntries(drained.map(([policy, { counts }]) => [policy, counts]));
    const originFailures = this.#originFailures;
    const requests = this.#requests;
    this.#originFailures = 0;
    this.#requests = 0;
    const named = drained.flatMap(([, each]) => each.named);
    const batch = { policies, originFailures, requests, ...(recorded !== null && { recorded }) };
    await this.#waiting.add(batch, sampled, denials, named, this.#now());
  }

  async #tailEntry(denial: SampledDenial, nowMs: number): Promise<TailEntry> {
    const { atMs, plain, ...entry } = denial;
    const sealed = plain === null ? undefined : await this.#sealer?.seal(entry.policy, entry.key, labelOf(plain));
    const agoMs = Math.max(0, nowMs - atMs);
    return { ...entry, agoMs, ...(sealed !== undefined && { sealed }) };
  }
}

/** Whether limits decided, in the object or in the isolate, and not a ban, a rule or `onError`. */
const isByLimits = (outcome: OutcomeName): boolean =>
  outcome === "allowed" || outcome === "denied" || outcome === "dry-run-denied" || outcome === "fallback-local";

const isAllowedByName = (outcome: OutcomeName): boolean =>
  outcome === "allowed" || outcome === "exempt" || outcome === "fallback-open";

/** The counts of one policy since the last batch. */
export class PolicyStatistics {
  /** In the order of `outcomeNames`. */
  readonly #outcomes = new Float64Array(outcomeNames.length);
  #nearLimit = 0;
  #deniedRequests = 0;
  /** By bucket. The last one counts latencies above all bounds. */
  readonly #latency = new Float64Array(latencyBoundsMs.length + 1);
  #latencySumMs = 0;
  #hasCounts = false;
  readonly #denied = new NamedSketch();
  readonly #spenders = new NamedSketch();
  /** The units that settlements gave back. Null until the first. */
  #refunds: SpaceSaving | null = null;

  count(outcome: OutcomeName): void {
    const index = outcomeNames.indexOf(outcome);
    this.#outcomes[index] = (this.#outcomes[index] ?? 0) + 1;
    this.#hasCounts = true;
  }

  countDeniedRequest(): void {
    this.#deniedRequests++;
    this.#hasCounts = true;
  }

  /** Counts a decision after which less than 20 % of a limit is left. */
  countNearLimit({ limits }: Decision): void {
    for (const { remaining, capacity } of limits) {
      if (remaining * 5 >= capacity) continue;
      this.#nearLimit++;
      return;
    }
  }

  countLatency(latencyMs: number): void {
    // A clock that stepped back must not reduce the sum.
    const ms = Math.max(0, latencyMs);
    // Most latencies are short.
    let bucket = 0;
    while (ms > (latencyBoundsMs[bucket] ?? Infinity)) bucket++;
    this.#latency[bucket] = (this.#latency[bucket] ?? 0) + 1;
    this.#latencySumMs += ms;
    this.#hasCounts = true;
  }

  countDenied(key: string, plain: PlainKey | null): void {
    this.#denied.add(key, 1, plain);
  }

  countSpent({ partitionKey, cost }: DecidedKey, plain: PlainKey | null): void {
    if (cost > 0) this.#spenders.add(partitionKey, cost, plain);
  }

  /**
   * Counts the difference that a settlement makes. Refunds have a list of their own: a sketch that subtracts would no
   * longer bound the counts of the keys that it has dropped.
   * @param more the actual cost less the cost that was counted
   */
  countSettled(key: string, more: number): void {
    if (more > 0) this.#spenders.addMore(key, more);
    else (this.#refunds ??= new SpaceSaving(sketchSlots)).add(key, -more);
    this.#hasCounts = true;
  }

  get hasCounts(): boolean {
    return this.#hasCounts;
  }

  /** The number of lists that are not empty. */
  get lists(): number {
    const sizes = [this.#denied.size, this.#spenders.size, this.#refunds?.size ?? 0];
    return sizes.filter((size) => size > 0).length;
  }

  /** Returns the counts, and the listed keys whose plain form is known. Resets the counts to 0. */
  drain(policy: string, mostKeys: number): { readonly counts: PolicyCounts; readonly named: readonly SealCandidate[] } {
    const denied = this.#denied.drain(policy, mostKeys);
    const spenders = this.#spenders.drain(policy, mostKeys);
    const refunds = this.#refunds?.top(mostKeys) ?? { keys: [], mostOther: 0 };
    this.#refunds?.clear();
    const counts: PolicyCounts = {
      outcomes: Object.fromEntries(nonZero(this.#outcomes).map(([index, count]) => [outcomeNames[index] ?? "", count])),
      nearLimit: this.#nearLimit,
      latency: nonZero(this.#latency),
      latencySumMs: this.#latencySumMs,
      topDenied: denied.keys,
      ...(denied.mostOther > 0 && { mostOtherDenied: denied.mostOther }),
      topSpenders: spenders.keys,
      ...(spenders.mostOther > 0 && { mostOtherSpent: spenders.mostOther }),
      ...(this.#deniedRequests > 0 && { deniedRequests: this.#deniedRequests }),
      ...(refunds.keys.length > 0 && { topRefunded: refunds.keys }),
      ...(refunds.mostOther > 0 && { mostOtherRefunded: refunds.mostOther }),
    };
    this.#outcomes.fill(0);
    this.#nearLimit = 0;
    this.#deniedRequests = 0;
    this.#latency.fill(0);
    this.#latencySumMs = 0;
    this.#hasCounts = false;
    return { counts, named: [...denied.named, ...spenders.named] };
  }
}

const nonZero = (counts: Float64Array): [index: number, count: number][] =>
  [...counts.entries()].filter(([, count]) => count > 0);

/** The most frequent keys, with their plain forms. */
class NamedSketch {
  readonly #sketch = new SpaceSaving(sketchSlots);
  /** By slot. */
  readonly #plain: (PlainKey | null)[] = [];

  add(key: string, weight: number, plain: PlainKey | null): void {
    const slot = this.#sketch.add(key, weight);
    this.#plain[slot] = plain === null || isTooLong(plain) ? null : plain;
  }

  /** Adds to the weight of a key whose plain form is unknown, or was passed before. */
  addMore(key: string, weight: number): void {
    const isKnown = this.#sketch.slotOf(key) !== -1;
    const slot = this.#sketch.add(key, weight);
    if (!isKnown) this.#plain[slot] = null;
  }

  get size(): number {
    return this.#sketch.size;
  }

  drain(policy: string, mostKeys: number) {
    const { keys, mostOther } = this.#sketch.top(mostKeys);
    const listed: SealedKey[] = keys.map((each) => ({ ...each }));
    const named = listed.flatMap((each, rank): SealCandidate[] => {
      const plain = this.#plain[this.#sketch.slotOf(each.key)] ?? null;
      return plain === null ? [] : [{ policy, rank, key: each.key, listed: each, plain }];
    });
    this.#sketch.clear();
    this.#plain.length = 0;
    return { keys: listed, mostOther, named };
  }
}
