/**
 * The statistics of an isolate: counts of its decisions since its last batch, and a sample of its traffic. Requests record
 * their outcomes here after they are decided; beats take the counts to the control plane in numbered batches. A batch that is
 * not stored yet is sent again. When too many wait, the open batch takes all further counts, so that no count is lost and
 * memory is bounded.
 */
import type { PlainKey } from "../../policy/key.ts";
import { BoundedMap } from "../../policy/bounded-map.ts";
import { type Clock, platformClock } from "../../limiter/clock.ts";
import type { SettledCharge } from "../../limiter/protocol.ts";
import type { Decision } from "../../strategies/index.ts";
import type { KeyAlert, OutcomeName, PolicyCounts, StatisticsBatch, TailEntry } from "../protocol.ts";
import { KeyAlerts } from "./key-alerts.ts";
import { type KeySealer, labelOf } from "./key-sealer.ts";
import { type DecidedKey, type ListedKey, type NamedList, PolicyStatistics } from "./statistics-of-policy.ts";
import { TrafficSample, type TrafficSampleOptions } from "./traffic-sample.ts";

/** The most keys of one list, and of all lists in a batch, which then has at most about 20 KB. */
const mostListed = 20;
const mostListedInBatch = 256;

const mostWaiting = 12;
/** The most keys of all waiting batches together, about 64 KB. */
const mostWaitingKeys = 768;
/** From this number of sampled events in waiting batches on, no further batch is closed: at most about 250 KB. */
const mostWaitingEvents = 4_000;

const mostSealed = 20;
/** How soon a listed key is sealed and sent again. The control plane keeps sealed keys for a day. */
const sealedAgainAfterMs = 3_600_000;
const mostSealedKnown = 4_096;

export interface StatisticsOptions {
  /** Null when `REVEAL` is off: plain keys are then never kept. */
  readonly sealer: KeySealer | null;
  /** The names of the policies in `ALERT_KEYS`. */
  readonly alertedPolicies: ReadonlySet<string>;
  /** Null when `SAMPLE` is off. Default: null. */
  readonly sample?: TrafficSampleOptions | null;
  readonly clock?: Pick<Clock, "now">;
}

interface WaitingBatch extends Omit<StatisticsBatch, "agoMs"> {
  readonly closedAtMs: number;
  /** The number of keys in its lists. */
  readonly keys: number;
  /** The number of sampled events. */
  readonly events: number;
}

interface SealCandidate {
  readonly policy: string;
  readonly listed: ListedKey;
  readonly plain: PlainKey;
}

export class IsolateStatistics {
  /** Null when no traffic is sampled. */
  readonly traffic: TrafficSample | null;
  readonly #sealer: KeySealer | null;
  /** The data center of the isolate, where all of its requests arrive; "" until a request has stated it. */
  #colo = "";
  readonly #now: Clock["now"];
  readonly #policies = new Map<string, PolicyStatistics>();
  #originFailures = 0;
  /** The oldest first. */
  #waiting: WaitingBatch[] = [];
  #lastSeq = 0;
  readonly #alerts: KeyAlerts;
  #tail: TailSample | null = null;
  /** When a key was sealed last, by policy and key. */
  readonly #sealedAtMs = new BoundedMap<number>(mostSealedKnown);

  constructor({ sealer, alertedPolicies, sample, clock = platformClock }: StatisticsOptions) {
    this.traffic = sample ? new TrafficSample(sample) : null;
    this.#sealer = sealer;
    this.#now = clock.now;
    this.#alerts = new KeyAlerts(alertedPolicies);
  }

  /** Whether plain keys are sealed and sent. Otherwise they need not be passed. */
  get revealsKeys(): boolean {
    return this.#sealer !== null;
  }

  /** Takes the data center from the `cf` object of a request. */
  locate(cf: unknown): void {
    if (this.#colo !== "" || typeof cf !== "object" || cf === null) return;
    const colo: unknown = Reflect.get(cf, "colo");
    if (typeof colo === "string") this.#colo = colo;
  }

  /** Counts a decision that has no key for the lists. */
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
    const kept = this.#sealer === null ? null : plain;
    const isAllowed = decision === null ? isAllowedByName(outcome) : decision.allowed;
    // An exempt key spends nothing, and without a decision the spend is not known.
    if (!isAllowed) this.#recordDenial(counts, policy, outcome, key, decision, kept);
    else if (decision !== null && outcome !== "exempt") counts.countSpent(key, kept);
    if (decision === null || !isByLimits(outcome)) return;
    counts.countNearLimit(decision);
    if (this.#alerts.isAlerted(policy)) {
      this.#alerts.note(policy, key.partitionKey, decision, this.#now());
    }
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

  wantsSettlements(partitionKey: string): boolean {
    return this.traffic?.includes(partitionKey) === true;
  }

  settled(partitionKey: string, charges: readonly SettledCharge[]): void {
    this.traffic?.settled(partitionKey, charges);
  }

  originFailed(): void {
    this.#originFailures++;
  }

  /** Closes the open batch, and returns every batch that is not stored yet, the oldest first. */
  async batches(): Promise<readonly StatisticsBatch[]> {
    await this.#close();
    const nowMs = this.#now();
    return this.#waiting.map(({ closedAtMs, keys: _keys, events: _events, ...batch }) => ({
      ...batch,
      agoMs: Math.max(0, nowMs - closedAtMs),
    }));
  }

  /** Discards the batches up to this number. */
  stored(seq: number): void {
    this.#waiting = this.#waiting.filter((batch) => batch.seq > seq);
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

  /** Whether so much waits that the open batch stays open. */
  get #isFull(): boolean {
    const keys = this.#waiting.reduce((sum, each) => sum + each.keys, 0);
    const events = this.#waiting.reduce((sum, each) => sum + each.events, 0);
    return this.#waiting.length >= mostWaiting || keys >= mostWaitingKeys || events >= mostWaitingEvents;
  }

  async #close(): Promise<void> {
    if (this.#isFull) return;
    const counted = [...this.#policies].filter(([, each]) => each.hasCounts);
    const isSampled = this.traffic?.isEmpty === false;
    if (counted.length === 0 && this.#originFailures === 0 && !isSampled) return;
    const lists = counted.reduce((sum, [, each]) => sum + each.lists, 0);
    const share = Math.min(mostListed, Math.floor(mostListedInBatch / Math.max(1, lists)));
    const policies: Record<string, PolicyCounts> = {};
    const named: (readonly [policy: string, list: NamedList])[] = [];
    for (const [policy, each] of counted) {
      const { counts, lists: own } = each.drain(Math.max(1, share));
      policies[policy] = counts;
      for (const list of own) named.push([policy, list]);
    }
    const sampled = isSampled ? this.traffic.drain() : null;
    this.#lastSeq++;
    this.#waiting.push({
      seq: this.#lastSeq,
      closedAtMs: this.#now(),
      policies,
      originFailures: this.#originFailures,
      ...(sampled !== null && { samples: sampled.batches }),
      keys: named.reduce((sum, [, { keys }]) => sum + keys.length, 0),
      events: sampled?.events ?? 0,
    });
    this.#originFailures = 0;
    await this.#seal(named);
  }

  /** Seals listed keys that are due: the top key of each list first, then the second of each, and so on. */
  async #seal(named: readonly (readonly [policy: string, list: NamedList])[]): Promise<void> {
    if (this.#sealer === null) return;
    const nowMs = this.#now();
    const chosen: SealCandidate[] = [];
    for (let rank = 0; rank < mostListed && chosen.length < mostSealed; rank++) {
      for (const [policy, { keys, plain }] of named) {
        const candidate = candidateOf(policy, keys[rank], plain[rank]);
        if (candidate === null || chosen.length >= mostSealed) continue;
        if (this.#takeSeal(candidate, nowMs)) chosen.push(candidate);
      }
    }
    await Promise.all(
      chosen.map(async ({ policy, listed, plain }) => {
        const sealed = await this.#sealed(policy, listed.key, plain);
        if (sealed !== null) listed.sealed = sealed;
      }),
    );
  }

  /** Whether a key is due to be sealed. Notes that it is sealed now, so that the next call returns false. */
  #takeSeal({ policy, listed }: SealCandidate, nowMs: number): boolean {
    const name = `${policy} ${listed.key}`;
    const atMs = this.#sealedAtMs.get(name);
    if (atMs !== undefined && nowMs >= atMs && nowMs - atMs < sealedAgainAfterMs) return false;
    this.#sealedAtMs.set(name, nowMs);
    return true;
  }

  async #tailEntry(denial: SampledDenial, nowMs: number): Promise<TailEntry> {
    const { atMs, plain, ...entry } = denial;
    const sealed = plain === null ? null : await this.#sealed(denial.policy, denial.key, plain);
    const agoMs = Math.max(0, nowMs - atMs);
    return { ...entry, agoMs, ...(sealed !== null && { sealed }) };
  }

  async #sealed(policy: string, key: string, plain: PlainKey): Promise<string | null> {
    return this.#sealer?.seal(policy, key, labelOf(plain)) ?? null;
  }
}

const candidateOf = (
  policy: string,
  listed: ListedKey | undefined,
  plain: PlainKey | null | undefined,
): SealCandidate | null =>
  listed === undefined || plain === undefined || plain === null ? null : { policy, listed, plain };

/** Whether limits have decided, in the object or in the isolate. Otherwise a ban, a rule or `onError` has. */
const isByLimits = (outcome: OutcomeName): boolean =>
  outcome === "allowed" || outcome === "denied" || outcome === "dry-run-denied" || outcome === "fallback-local";

const isAllowedByName = (outcome: OutcomeName): boolean =>
  outcome === "allowed" || outcome === "exempt" || outcome === "fallback-open";

export interface SampledDenial extends Omit<TailEntry, "agoMs" | "sealed"> {
  readonly atMs: number;
  /** Null when keys are not revealed, or when the key is too long. */
  readonly plain: PlainKey | null;
}

const mostSampled = 20;

/**
 * Holds the first denials. When it is full, a denial replaces one of the policy with the most in the sample, so that a
 * flood of one policy hides no other.
 */
export class TailSample {
  #denials: SampledDenial[] = [];
  readonly #counts = new Map<string, number>();
  /** The greatest of `#counts`. */
  #most = 0;

  /**
   * Whether `add` would change the sample. If not, as for most denials of a flood, the caller need not describe the
   * denial.
   */
  wants(policy: string): boolean {
    return this.#denials.length < mostSampled || this.#most > (this.#counts.get(policy) ?? 0) + 1;
  }

  add(denial: SampledDenial): void {
    const { policy } = denial;
    if (!this.wants(policy)) return;
    if (this.#denials.length >= mostSampled) this.#dropCrowded();
    this.#denials.push(denial);
    this.#counts.set(policy, (this.#counts.get(policy) ?? 0) + 1);
    this.#most = Math.max(...this.#counts.values());
  }

  /** Removes and returns the sample. */
  drain(): readonly SampledDenial[] {
    const denials = this.#denials;
    this.#denials = [];
    this.#counts.clear();
    this.#most = 0;
    return denials;
  }

  /** Drops the last denial of the policy with the most. */
  #dropCrowded(): void {
    const last = this.#denials.findLastIndex(({ policy }) => this.#counts.get(policy) === this.#most);
    const [dropped] = this.#denials.splice(last, 1);
    if (dropped !== undefined) this.#counts.set(dropped.policy, this.#most - 1);
  }
}
