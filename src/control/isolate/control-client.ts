/** The control plane's client in an isolate: the policies in effect, and the beats that keep them up to date. */
import { modeOf } from "../../policy/runtime-rules.ts";
import type { Policy } from "../../policy/policy.ts";
import { type Clock, platformClock, type WaitUntil, withDeadline } from "../../limiter/clock.ts";
import { type StaleRules, platformRetries } from "../../limiter/protocol.ts";
import {
  type BeatCall,
  type BeatReply,
  type KeyAlert,
  type PolicyInfo,
  type StatisticsBatch,
  type TailEntry,
  controlPlaneName,
} from "../protocol.ts";
import { RulesInEffect } from "./rules-in-effect.ts";
import { errorText, report } from "../../observability/events.ts";

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
  readonly statistics?: BeatSource;
  readonly clock?: Clock;
  readonly random?: () => number;
}

export class ControlClient {
  readonly #rules: RulesInEffect;
  readonly #heartbeat: Heartbeat;
  readonly #clock: Clock;
  /** Identifies `KEY_SECRET` in rules and beats, without revealing it. */
  readonly secretId: () => Promise<string>;

  constructor(options: ControlClientOptions) {
    const { policies, objects, statistics = noStatistics, clock = platformClock, random } = options;
    this.#clock = clock;
    this.secretId = secretIdBy(options.hash);
    this.#rules = new RulesInEffect(policies);
    this.#heartbeat = new Heartbeat({
      isolate: crypto.randomUUID(),
      rules: this.#rules,
      statistics,
      describe: describer(options, this.secretId),
      // A new stub for each call: a stub that has thrown stays broken.
      send: (call) => objects.getByName(controlPlaneName, { retry: platformRetries }).beat(call),
      clock,
      ...(random !== undefined && { random }),
    });
  }

  /** The policies in effect, in the order of the configuration. The same list until it changes. */
  policies(nowMs: number = this.#clock.now()): readonly Policy[] {
    return this.#rules.policies(nowMs);
  }

  /** Counts a request, and starts a beat alongside it if one is due. */
  touch(waitUntil: WaitUntil): void {
    this.#heartbeat.touch(this.#clock.now(), waitUntil);
  }

  /** Sends beats every second, until a reply says that no operator reads the statistics. */
  watch(): void {
    this.#heartbeat.watch();
  }

  /** Adopts the newer rules of an object's reply, and starts a beat for them at most once a second. */
  adopt(rules: readonly StaleRules[], waitUntil: WaitUntil): void {
    this.#rules.adopt(rules);
    this.#heartbeat.refresh(this.#clock.now(), waitUntil);
  }
}

const hashLength = 16;

/*
 * The functions below keep values and not promises: the platform may cancel the request that computes one, and its
 * promise would then never settle.
 */

function secretIdBy(hash: ControlClientOptions["hash"]): () => Promise<string> {
  let id: string | null = null;
  return async () => (id ??= (await hash(JSON.stringify({ secret: "id" }))).slice(0, hashLength));
}

function describer({ policies, codeVersion, hash }: ControlClientOptions, secretId: () => Promise<string>) {
  let described: Deployment | null = null;
  return async (): Promise<Deployment> => {
    if (described !== null) return described;
    const infos = policies.map(infoOf);
    const whole = await hash(JSON.stringify({ deployment: [codeVersion, infos] }));
    const deployment = whole.slice(0, hashLength);
    described = { deployment, secretId: await secretId(), policies: infos };
    return described;
  };
}

const infoOf = (policy: Policy): PolicyInfo => ({
  name: policy.name,
  mode: modeOf(policy),
  objects: policy.objects,
  limits: limitInfos(policy),
});

export const limitInfos = ({ limits }: Pick<Policy, "limits">): PolicyInfo["limits"] =>
  limits.map(({ name, limit, windowMs }) => ({ name, limit, windowMs }));

/** The statistics that beats carry. */
export interface BeatSource {
  /** Every batch that is not stored yet, the oldest first. Closes the current batch. */
  readonly batches: () => Promise<readonly StatisticsBatch[]>;
  /** Discards the batches up to this number. */
  readonly stored: (seq: number) => void;
  /** Whether a tail is open, after each reply. Entries need to be collected only then. */
  readonly setTailed: (isTailed: boolean) => void;
  /** Removes and returns the collected entries, at most 20. Called only while a tail is open. */
  readonly tail: () => Promise<readonly TailEntry[]>;
  /** Removes and returns the alerts since the last call. A beat that fails is repeated with its alerts. */
  readonly alerts: () => readonly KeyAlert[];
}

export const noStatistics: BeatSource = {
  batches: async () => [],
  stored: () => undefined,
  setTailed: () => undefined,
  tail: async () => [],
  alerts: () => [],
};

export interface Deployment {
  readonly deployment: string;
  readonly secretId: string;
  readonly policies: readonly PolicyInfo[];
}

export interface HeartbeatParts {
  readonly isolate: string;
  readonly rules: RulesInEffect;
  readonly statistics: BeatSource;
  readonly describe: () => Promise<Deployment>;
  readonly send: (call: BeatCall) => Promise<BeatReply>;
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
/** The shortest time between two beats that stale replies start. */
const staleIntervalMs = 1_000;

const deadlineMs = 5_000;
const firstRetryMs = 1_000;
const mostAlerts = 64;

interface Flight {
  /** From 1, in the order of the beats. */
  readonly number: number;
  readonly sentAtMs: number;
}

export class Heartbeat {
  readonly #parts: HeartbeatParts;
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
  /** Until a reply says otherwise, there may be rules. */
  #hasRules = true;
  #isWatched = false;
  #isTailed = false;
  #wantsPolicies = true;
  #alerts: readonly KeyAlert[] = [];

  constructor(parts: HeartbeatParts) {
    this.#parts = parts;
  }

  /** Counts a request, and starts a beat if one is due. */
  touch(nowMs: number, waitUntil: WaitUntil): void {
    this.#requests++;
    if (this.#isDue(nowMs) && this.#mayBeat(nowMs)) this.#beat(nowMs, waitUntil);
  }

  /** Starts a beat because an object has seen newer rules. */
  refresh(nowMs: number, waitUntil: WaitUntil): void {
    this.#hasRules = true;
    if (isWithin(staleIntervalMs, this.#staleBeatAtMs, nowMs) || !this.#mayBeat(nowMs)) return;
    this.#staleBeatAtMs = nowMs;
    this.#beat(nowMs, waitUntil);
  }

  /** This isolate has answered a read of the statistics. Others learn of it with the reply to their next beat. */
  watch(): void {
    this.#isWatched = true;
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
      // The platform may have canceled the request that sent the beat, with the timer of its deadline.
      this.#fail(flight, nowMs, `no answer within ${deadlineMs} ms`);
    }
    return !isWithin(this.#retryAfterMs, this.#failedAtMs, nowMs);
  }

  #beat(nowMs: number, waitUntil: WaitUntil): void {
    const flight = { number: ++this.#beats, sentAtMs: nowMs };
    this.#flight = flight;
    this.#requests = 0;
    waitUntil(this.#send(flight));
  }

  async #send(flight: Flight): Promise<void> {
    const { clock } = this.#parts;
    try {
      await withDeadline(clock, this.#exchange(flight), deadlineMs);
    } catch (error) {
      this.#fail(flight, clock.now(), errorText(error));
    }
  }

  async #exchange(flight: Flight): Promise<void> {
    const call = await this.#call();
    this.#receive(flight, call, await this.#parts.send(call));
  }

  async #call(): Promise<BeatCall> {
    const { isolate, rules, statistics, describe } = this.#parts;
    const { deployment, secretId, policies } = await describe();
    this.#alerts = [...this.#alerts, ...statistics.alerts()].slice(-mostAlerts);
    return {
      isolate,
      ...rules.known,
      deployment,
      secretId,
      ...(this.#wantsPolicies && { policies }),
      batches: await statistics.batches(),
      tail: this.#isTailed ? await statistics.tail() : [],
      alerts: this.#alerts,
    };
  }

  /** Handles a reply, even one that arrives after the deadline. */
  #receive(flight: Flight, call: BeatCall, reply: BeatReply): void {
    const { rules, statistics } = this.#parts;
    rules.adoptReply(reply);
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
    if (this.#flight === flight) this.#flight = null;
  }

  #fail(flight: Flight, nowMs: number, error: string): void {
    if (this.#flight !== flight) return;
    this.#flight = null;
    if (this.#failures === 0) report({ event: "control-plane-silent", error });
    // With rules, retries are as frequent as beats, so that newer rules arrive soon after an outage ends.
    const longestMs = this.#hasRules || this.#isWatched ? intervalMs : idleIntervalMs;
    const delayMs = Math.min(firstRetryMs * 2 ** this.#failures, longestMs);
    const { random } = this.#parts;
    this.#failedAtMs = nowMs;
    this.#retryAfterMs = random === undefined ? delayMs : delayMs * (0.5 + random() / 2);
    this.#failures = Math.min(this.#failures + 1, 16);
  }
}

/** Whether less than `lengthMs` have passed since an instant. False when the clock has stepped back. */
const isWithin = (lengthMs: number, sinceMs: number, nowMs: number): boolean =>
  nowMs >= sinceMs && nowMs - sinceMs < lengthMs;
