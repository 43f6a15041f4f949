/**
 * The control plane's client in an isolate: the policies in effect, which are those of the configuration under the newest
 * runtime rules that the isolate has received, and the beats that bring these rules.
 */
import { applyRules, type ReadRules, readRules } from "../../policy/read-runtime-rules.ts";
import { compareVersions, modeOf, type PolicyRules } from "../../policy/runtime-rules.ts";
import type { Policy } from "../../policy/policy.ts";
import { type Clock, type WaitUntil, withDeadline } from "../../limiter/clock.ts";
import { type StaleRules, platformRetries } from "../../limiter/protocol.ts";
import { errorText, report } from "../../observability/events.ts";
import { type BeatCall, type BeatReply, type KeyAlert, type PolicyInfo, controlPlaneName } from "../protocol.ts";
import type { IsolateStatistics } from "./statistics.ts";

/** The binding of the control plane object. */
export interface ControlPlaneObjects {
  readonly getByName: (
    name: string,
    options: { readonly retry: typeof platformRetries },
  ) => { readonly beat: (call: BeatCall) => Promise<BeatReply> };
}

export interface ControlClientOptions {
  /** The policies of the configuration. */
  readonly policies: readonly Policy[];
  readonly objects: ControlPlaneObjects;
  /** The version of the code. */
  readonly codeVersion: string;
  /** The HMAC with `KEY_SECRET`. */
  readonly hash: (text: string) => Promise<string>;
  /** The source of the counts that beats carry. */
  readonly statistics: Pick<
    IsolateStatistics,
    "startMinute" | "batches" | "stored" | "setTailed" | "tail" | "alerts" | "recorded"
  >;
  readonly clock: Clock;
  /** A random number from 0 up to 1, which spreads the delays after failures over isolates. Default: no spread. */
  readonly random?: () => number;
}

/** How old the rules may become before a request starts a beat. */
const intervalMs = 5_000;
const watchedIntervalMs = 1_000;
/**
 * Until the first rule is made, beats carry only counts. A beat is then due after this time and this number of
 * requests.
 */
const idleIntervalMs = 30_000;
const idleRequests = 20;
/** The shortest time between two beats that are started because an object's reply had newer rules. */
const staleIntervalMs = 1_000;

const deadlineMs = 5_000;
/** The longest time that a read of the statistics waits for the counts of its isolate. */
const longestReportMs = 500;
const firstRetryMs = 1_000;
const mostAlerts = 64;
const hashLength = 16;

interface Flight {
  /** From 1, in the order of the beats. */
  readonly number: number;
  readonly sentAtMs: number;
}

export class ControlClient {
  readonly #options: ControlClientOptions;
  readonly #isolate = crypto.randomUUID();
  readonly #rules: RulesInEffect;
  // Values and not promises: the platform may cancel the request that computes one, and its promise would then never settle.
  #secretId: string | null = null;
  #deployment: string | null = null;
  #flight: Flight | null = null;
  #beats = 0;
  /** The number of the latest beat that was answered. */
  #answered = 0;
  /** When the latest successful beat was sent: the rules are not older than that. */
  #refreshedAtMs = Number.NEGATIVE_INFINITY;
  #staleBeatAtMs = Number.NEGATIVE_INFINITY;
  /** Requests since the latest beat was sent. */
  #requests = 0;
  #failures = 0;
  #failedAtMs = Number.NEGATIVE_INFINITY;
  #retryAfterMs = 0;
  /** True until a reply states that there are no rules. */
  #hasRules = true;
  #isWatched = false;
  #isTailed = false;
  #wantsPolicies = true;
  /** The alerts that no answered beat has carried. */
  #alerts: readonly KeyAlert[] = [];

  constructor(options: ControlClientOptions) {
    this.#options = options;
    this.#rules = new RulesInEffect(options.policies);
  }

  /** The policies in effect, in the order of the configuration. The same list until it changes. */
  policies(): readonly Policy[] {
    return this.#rules.policies(this.#options.clock.now());
  }

  /** Counts a request, and starts a beat alongside it if one is due. */
  touch(waitUntil: WaitUntil): void {
    const nowMs = this.#options.clock.now();
    this.#requests++;
    this.#options.statistics.startMinute(nowMs);
    if (this.#isDue(nowMs) && this.#mayBeat(nowMs)) void this.#beat(nowMs, waitUntil);
  }

  /**
   * Counts a request that reads the statistics. Its beat is due every second, and the read waits for it, so that even
   * the first read has all counts of this isolate.
   */
  async report(waitUntil: WaitUntil): Promise<void> {
    const { clock, statistics } = this.#options;
    const nowMs = clock.now();
    this.#requests++;
    statistics.startMinute(nowMs);
    this.#isWatched = true;
    if (!this.#isDue(nowMs) || !this.#mayBeat(nowMs)) return;
    // A late beat goes on, and the next read has its counts.
    await withDeadline(clock, this.#beat(nowMs, waitUntil), longestReportMs).catch(() => {});
  }

  /**
   * Sends beats every second, because this isolate has answered a read of the statistics. Other isolates learn of it
   * with the reply to their next beat. A reply also ends it.
   */
  watch(): void {
    this.#isWatched = true;
  }

  /** Adopts the newer rules of an object's reply, and starts a beat for them at most once a second. */
  adopt(rules: readonly StaleRules[], waitUntil: WaitUntil): void {
    this.#rules.adopt(rules);
    this.#hasRules = true;
    const nowMs = this.#options.clock.now();
    if (isWithin(staleIntervalMs, this.#staleBeatAtMs, nowMs) || !this.#mayBeat(nowMs)) return;
    this.#staleBeatAtMs = nowMs;
    void this.#beat(nowMs, waitUntil);
  }

  /** Identifies `KEY_SECRET` in rules and beats, without revealing it. */
  async secretId(): Promise<string> {
    return (this.#secretId ??= await this.#shortHash({ secret: "id" }));
  }

  #isDue(nowMs: number): boolean {
    if (this.#isWatched) return !isWithin(watchedIntervalMs, this.#refreshedAtMs, nowMs);
    if (this.#hasRules) return !isWithin(intervalMs, this.#refreshedAtMs, nowMs);
    return this.#requests >= idleRequests && !isWithin(idleIntervalMs, this.#refreshedAtMs, nowMs);
  }

  /** False while a beat is in flight, and for a while after one has failed. */
  #mayBeat(nowMs: number): boolean {
    const flight = this.#flight;
    if (flight !== null) {
      if (isWithin(deadlineMs, flight.sentAtMs, nowMs)) return false;
      // The platform may have canceled the request that sent the beat, and with it the timer of the deadline.
      this.#fail(flight, nowMs, `no answer within ${deadlineMs} ms`);
    }
    return !isWithin(this.#retryAfterMs, this.#failedAtMs, nowMs);
  }

  #beat(nowMs: number, waitUntil: WaitUntil): Promise<void> {
    const flight = { number: ++this.#beats, sentAtMs: nowMs };
    this.#flight = flight;
    this.#requests = 0;
    const sent = this.#send(flight);
    waitUntil(sent);
    return sent;
  }

  async #send(flight: Flight): Promise<void> {
    const { clock } = this.#options;
    try {
      await withDeadline(clock, this.#exchange(flight), deadlineMs);
    } catch (error) {
      this.#fail(flight, clock.now(), errorText(error));
    }
  }

  async #exchange(flight: Flight): Promise<void> {
    const call = await this.#call();
    // A new stub for each call: a stub that has thrown stays broken.
    const stub = this.#options.objects.getByName(controlPlaneName, { retry: platformRetries });
    this.#receive(flight, call, await stub.beat(call));
  }

  async #call(): Promise<BeatCall> {
    const { codeVersion, statistics } = this.#options;
    const policies = this.#options.policies.map(infoOf);
    this.#deployment ??= await this.#shortHash({ deployment: [codeVersion, policies] });
    const secretId = await this.secretId();
    this.#alerts = [...this.#alerts, ...statistics.alerts()].slice(-mostAlerts);
    return {
      isolate: this.#isolate,
      ...this.#rules.known,
      deployment: this.#deployment,
      secretId,
      ...(this.#wantsPolicies && { policies }),
      batches: await statistics.batches(),
      tail: this.#isTailed ? await statistics.tail() : [],
      alerts: this.#alerts,
      recordedVersion: statistics.recorded.version,
    };
  }

  async #shortHash(content: object): Promise<string> {
    return (await this.#options.hash(JSON.stringify(content))).slice(0, hashLength);
  }

  /** Handles a reply, even one that arrives after the deadline. */
  #receive(flight: Flight, call: BeatCall, reply: BeatReply): void {
    const { statistics } = this.#options;
    this.#rules.adoptReply(reply);
    statistics.stored(reply.storedSeq);
    this.#alerts = this.#alerts.filter((alert) => !call.alerts.includes(alert));
    // The reply to a later beat was handled before.
    if (flight.number < this.#answered) return;
    this.#answered = flight.number;
    this.#refreshedAtMs = flight.sentAtMs;
    this.#failures = 0;
    this.#retryAfterMs = 0;
    this.#hasRules = reply.hasRules;
    this.#isWatched = reply.isWatched;
    this.#isTailed = reply.isTailed;
    this.#wantsPolicies = reply.wantsPolicies;
    statistics.setTailed(reply.isTailed);
    if (reply.recorded !== undefined) statistics.recorded.adopt(reply.recorded, this.#options.clock.now());
    if (this.#flight === flight) this.#flight = null;
  }

  #fail(flight: Flight, nowMs: number, error: string): void {
    if (this.#flight !== flight) return;
    this.#flight = null;
    if (this.#failures === 0) report({ event: "control-plane-silent", error });
    // With rules, retries are as frequent as beats, so that newer rules arrive soon after an outage ends.
    const longestMs = this.#hasRules || this.#isWatched ? intervalMs : idleIntervalMs;
    const delayMs = Math.min(firstRetryMs * 2 ** this.#failures, longestMs);
    const { random = () => 1 } = this.#options;
    this.#failedAtMs = nowMs;
    this.#retryAfterMs = delayMs * (0.5 + random() / 2);
    this.#failures = Math.min(this.#failures + 1, 16);
  }
}

/** Whether less than `lengthMs` have passed since an instant. False when the clock has stepped back. */
const isWithin = (lengthMs: number, sinceMs: number, nowMs: number): boolean =>
  nowMs >= sinceMs && nowMs - sinceMs < lengthMs;

const infoOf = (policy: Policy): PolicyInfo => ({
  name: policy.name,
  mode: modeOf(policy),
  objects: policy.objects,
  limits: limitInfos(policy),
});

export const limitInfos = ({ limits }: Pick<Policy, "limits">): PolicyInfo["limits"] =>
  limits.map(({ name, limit, windowMs }) => ({ name, limit, windowMs }));

/** The rules of a policy before the isolate has received any. */
const unknownRules: PolicyRules = { epoch: 0, version: 0, text: "[]" };

interface RuledState {
  readonly base: Policy;
  read: ReadRules;
  policy: Policy;
  /** When `policy` must be derived again. */
  changesAtMs: number;
  /** The rules of the current version that the configuration refuses; each is reported once. */
  refused: ReadonlySet<string | null>;
}

/** The rules of a policy are never replaced by older ones. */
export class RulesInEffect {
  readonly #states: ReadonlyMap<string, RuledState>;
  #policies: readonly Policy[];
  #changesAtMs = Number.POSITIVE_INFINITY;

  /** @param configured the policies of the configuration */
  constructor(configured: readonly Policy[]) {
    this.#states = new Map(configured.map((base) => [base.name, stateOf(base)]));
    this.#policies = this.#inOrder();
  }

  /** The policies in effect, in the order of the configuration. The same list until it changes. */
  policies(nowMs: number): readonly Policy[] {
    if (nowMs >= this.#changesAtMs) this.#refresh(nowMs);
    return this.#policies;
  }

  /** The newest epoch and the versions within it, as a beat reports them. */
  get known(): Pick<BeatCall, "epoch" | "versions"> {
    const all = [...this.#states.values()].map(({ base, read }) => ({ base, ...read.rules }));
    const epoch = all.reduce((newest, each) => Math.max(newest, each.epoch), 0);
    // A version of an older epoch means nothing in the newest one, in which the policy may have no rules.
    const current = all.filter((each) => each.epoch === epoch && each.version > 0);
    const versions = Object.fromEntries(current.map(({ base, version }) => [base.name, version]));
    return { epoch, versions };
  }

  /** Adopts newer rules. Ignores older ones, and those of policies that the configuration does not have. */
  adopt(rules: readonly StaleRules[]): void {
    for (const { policy, epoch, version, text } of rules) {
      const state = this.#states.get(policy);
      if (state !== undefined) this.#replace(state, { epoch, version, text });
    }
  }

  /** Adopts the rules of a reply. In a later epoch, policies that the reply does not name have no rules. */
  adoptReply({ epoch, changed }: Pick<BeatReply, "epoch" | "changed">): void {
    this.adopt(changed);
    for (const state of this.#states.values()) {
      if (state.read.rules.epoch < epoch) this.#replace(state, { ...unknownRules, epoch });
    }
  }

  #replace(state: RuledState, rules: PolicyRules): void {
    if (compareVersions(rules, state.read.rules) <= 0) return;
    state.read = readRules(state.base, rules);
    state.changesAtMs = Number.NEGATIVE_INFINITY;
    this.#changesAtMs = Number.NEGATIVE_INFINITY;
    const { refused } = state.read;
    for (const { id, reason } of refused) {
      if (state.refused.has(id)) continue;
      report({ event: "rule-refused", policy: state.base.name, rule: id, reason });
    }
    state.refused = new Set(refused.map(({ id }) => id));
  }

  #refresh(nowMs: number): void {
    const states = [...this.#states.values()];
    for (const state of states) {
      if (nowMs < state.changesAtMs) continue;
      const { policy, changesAtMs } = applyRules(state.base, state.read, nowMs);
      Object.assign(state, { policy, changesAtMs });
    }
    this.#policies = this.#inOrder();
    this.#changesAtMs = Math.min(...states.map(({ changesAtMs }) => changesAtMs));
  }

  #inOrder(): readonly Policy[] {
    return [...this.#states.values()].map(({ policy }) => policy);
  }
}

const stateOf = (base: Policy): RuledState => ({
  base,
  read: { rules: unknownRules, parts: [], refused: [] },
  policy: { ...base, rules: unknownRules },
  changesAtMs: Number.POSITIVE_INFINITY,
  refused: new Set(),
});
