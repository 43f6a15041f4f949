/**
 * The statistics of an isolate: counts of its decisions since its last batch, and samples of its traffic and its denials.
 * Requests record their outcomes here after they are decided; beats take the counts to the control plane in batches.
 */
import type { PlainKey } from "../../policy/key.ts";
import { type Clock, platformClock } from "../../limiter/clock.ts";
import type { SettledCharge } from "../../limiter/protocol.ts";
import type { Decision } from "../../strategies/index.ts";
import type { KeyAlert, OutcomeName, StatisticsBatch, TailEntry } from "../protocol.ts";
import { type BatchCounts, type SealCandidate, WaitingBatches } from "./batches.ts";
import { type DecidedDenial, type DecidedKey, DenialSample, describedDenial } from "./denial-sample.ts";
import { type KeySealer, labelOf } from "./key-sealer.ts";
import { PolicyStatistics } from "./policy-statistics.ts";
import { KeyAlerts, type SampledDenial, TailSample } from "./tail-and-alerts.ts";
import { RecordedKeys, TrafficSample, type TrafficSampleOptions } from "./traffic-sample.ts";

/** The most keys of one list, and of all lists in a batch, which then has at most about 20 KB. */
const mostListed = 20;
const mostListedInBatch = 256;
const minuteMs = 60_000;
/** The control plane stores counts by the minute, and takes those of earlier minutes as counts of now. */
const mostEndedMinutes = 2;

interface EndedMinute {
  readonly counts: BatchCounts;
  readonly named: readonly SealCandidate[];
}

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
  /** The minute of the open counts, or the latest of their minutes; null before the first request. */
  #countedInMs: number | null = null;
  /** Counts that no batch has yet, the oldest first. */
  #ended: readonly EndedMinute[] = [];
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

  /** Call this before a request is counted, so that the counts of each minute are apart. */
  startMinute(nowMs: number): void {
    if (this.#countedInMs !== null && nowMs >= this.#countedInMs && nowMs - this.#countedInMs < minuteMs) return;
    if (this.#ended.length < mostEndedMinutes) this.#endMinute();
    this.#countedInMs = Math.floor(nowMs / minuteMs) * minuteMs;
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
    const nowMs = this.#now();
    const countedInMs = this.#countedInMs ?? Math.floor(nowMs / minuteMs) * minuteMs;
    const group = { policy, key: key?.partitionKey ?? null, reason, countedInMs };
    const noted = this.#denials?.note(group, nowMs, instance, () =>
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

  /** Takes the open counts as those of one minute. */
  #endMinute(): void {
    const counted = [...this.#policies].filter(([, each]) => each.hasCounts);
    if (counted.length === 0 && this.#originFailures === 0) return;
    const lists = counted.reduce((sum, [, each]) => sum + each.lists, 0);
    const share = Math.max(1, Math.min(mostListed, Math.floor(mostListedInBatch / Math.max(1, lists))));
    const drained = counted.map(([policy, each]) => [policy, each.drain(policy, share)] as const);
    const counts: BatchCounts = {
      policies: Object.fromEntries(drained.map(([policy, each]) => [policy, each.counts])),
      originFailures: this.#originFailures,
      requests: this.#requests,
      ...(this.#countedInMs !== null && { countedInMs: this.#countedInMs }),
    };
    this.#originFailures = 0;
    this.#requests = 0;
    this.#ended = [...this.#ended, { counts, named: drained.flatMap(([, { named }]) => named) }];
  }

  /** Makes a batch of each minute. The last one has what is not counted by the minute. */
  async #close(): Promise<void> {
    this.#endMinute();
    const sampled = this.traffic?.drain() ?? null;
    const denials = this.#denials?.drain(this.#now()) ?? null;
    const recorded = this.recorded.drain();
    const earlier = this.#ended.slice(0, -1);
    const last = this.#ended.at(-1);
    this.#ended = [];
    if (last === undefined && sampled === null && denials === null) return;
    const nowMs = this.#now();
    const added = earlier.map(({ counts, named }) => this.#waiting.add(counts, null, null, named, nowMs));
    const { counts, named } = last ?? { counts: { policies: {}, originFailures: 0, requests: 0 }, named: [] };
    const batch = { ...counts, ...(recorded !== null && { recorded }) };
    await Promise.all([...added, this.#waiting.add(batch, sampled, denials, named, nowMs)]);
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
