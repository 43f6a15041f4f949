/**
 * The control plane object on the platform: each method answers an isolate's beat or a call of the admin API. All work is in
 * plane.ts, which tests also run without the platform.
 */
import { DurableObject } from "cloudflare:workers";
import { alertSettings, mostDenialsIn } from "../../policy/vars/admin.ts";
import type { Jurisdiction, LocationHint } from "../../policy/placement.ts";
import { platformClock } from "../../limiter/clock.ts";
import type {
  Actor,
  BeatCall,
  ControlPlaneMethods,
  LimitsInEffect,
  NotedAction,
  PolicyPatch,
  RuleCreation,
  RuleDeletion,
  RuleQuery,
  RuleReplacement,
} from "../protocol.ts";
import type { Rollback, Undo } from "../history-calls.ts";
import type { SetRulesReply } from "../../limiter/protocol.ts";
import type { DeniedKeysQuery, DenialsQuery } from "../denial-calls.ts";
import type { RecordedQuery, Recording } from "../recording-calls.ts";
import type { SamplesQuery, StatisticsQuery, TopQuery } from "../statistics-calls.ts";
import type { Push } from "./outbox.ts";
import type { Dataset } from "./observers.ts";
import { Plane } from "./plane.ts";
import { hibernatingSockets } from "./tail.ts";

/** The bindings of the Worker. Its variables configure the alerts and the log of denials. */
export interface ControlPlaneBindings {
  readonly RATE_LIMITER: LimiterObjects;
  readonly ANALYTICS?: Dataset;
}

/** The Durable Object that keeps runtime rules, statistics and the audit log. */
export class ControlPlane extends DurableObject<ControlPlaneBindings> implements ControlPlaneMethods {
  readonly #plane: Plane;

  constructor(ctx: DurableObjectState, env: ControlPlaneBindings) {
    super(ctx, env);
    this.#plane = new Plane({
      storage: ctx.storage,
      clock: platformClock,
      push: pushTo(env.RATE_LIMITER),
      randomId: () => crypto.randomUUID().slice(0, 8),
      observers: {
        alerts: alertSettings({ ...env }),
        mostDenials: mostDenialsIn({ ...env }),
        dataset: env.ANALYTICS ?? null,
        sockets: hibernatingSockets(ctx),
        waitUntil: (work) => ctx.waitUntil(work),
      },
    });
  }

  beat(call: BeatCall) {
    return this.#plane.beat(call);
  }

  policyState(policy: string) {
    return this.#plane.policyState(policy);
  }

  rules(query: RuleQuery) {
    return this.#plane.rules(query);
  }

  rule(id: string) {
    return this.#plane.rule(id);
  }

  createRule(call: RuleCreation) {
    return this.#plane.createRule(call);
  }

  replaceRule(call: RuleReplacement) {
    return this.#plane.replaceRule(call);
  }

  deleteRule(call: RuleDeletion) {
    return this.#plane.deleteRule(call);
  }

  changePolicy(call: PolicyPatch) {
    return this.#plane.changePolicy(call);
  }

  undo(call: Undo) {
    return this.#plane.undo(call);
  }

  rollback(call: Rollback) {
    return this.#plane.rollback(call);
  }

  rollbackProgress() {
    return this.#plane.rollbackProgress();
  }

  note(action: NotedAction) {
    this.#plane.note(action);
  }

  noteAll(actions: readonly NotedAction[]) {
    this.#plane.noteAll(actions);
  }

  audit(query: Parameters<ControlPlaneMethods["audit"]>[0]) {
    return this.#plane.audit(query);
  }

  sealedKey(policy: string, key: string) {
    return this.#plane.sealedKeys(policy, [key])[0] ?? null;
  }

  sealedKeys(policy: string, keys: readonly string[]) {
    return this.#plane.sealedKeys(policy, keys);
  }

  statistics(query: StatisticsQuery) {
    return this.#plane.statistics(query);
  }

  top(query: TopQuery) {
    return this.#plane.top(query);
  }

  samples(query: SamplesQuery) {
    return this.#plane.samples(query);
  }

  sampleChunks(policy: string, ids: readonly number[]) {
    return this.#plane.sampleChunks(policy, ids);
  }

  denials(query: DenialsQuery) {
    return this.#plane.denials(query);
  }

  deniedKeys(query: DeniedKeysQuery) {
    return this.#plane.deniedKeys(query);
  }

  record(call: Recording) {
    return this.#plane.record(call);
  }

  stopRecording(call: Recording) {
    this.#plane.stopRecording(call);
  }

  recordedCounts(query: RecordedQuery) {
    return this.#plane.recordedCounts(query);
  }

  rulesOfPolicies() {
    return this.#plane.rulesOfPolicies();
  }

  metrics(limits: LimitsInEffect = {}) {
    return this.#plane.metrics(limits);
  }

  ticket(_actor: Actor) {
    return this.#plane.ticket();
  }

  /** Opens a WebSocket of the tail. */
  override fetch(request: Request): Response {
    return this.#plane.tail.open(request, platformClock.now());
  }

  override webSocketMessage(socket: WebSocket): void {
    this.#plane.tail.received(socket);
  }

  override webSocketClose(socket: WebSocket, code: number): void {
    this.#plane.tail.closed(socket, code);
  }

  override alarm(): Promise<void> {
    return this.#plane.alarm();
  }
}

/** The outbox itself repeats a push that fails. */
const retry = { maxRetries: 0 };

/** The binding of the limiter objects. */
export interface LimiterObjects {
  readonly jurisdiction: (jurisdiction: Jurisdiction) => LimiterObjects;
  readonly getByName: (
    name: string,
    options: { readonly retry: typeof retry; readonly locationHint?: LocationHint },
  ) => { readonly setRules: (...rules: PushedRules) => Promise<SetRulesReply> };
}

type PushedRules = Parameters<Push> extends [unknown, ...infer Rules] ? Rules : never;

/**
 * @param objects the namespace of the limiter's objects. An object of an older version lacks the method, so the call
 * fails
 */
const pushTo =
  (objects: LimiterObjects): Push =>
  async ({ name, locationHint, jurisdiction }, key, policy, rules, version) => {
    const namespace = jurisdiction === null ? objects : objects.jurisdiction(jurisdiction);
    const stub = namespace.getByName(name, {
      retry,
      ...(locationHint !== null && { locationHint }),
    });
    const reply = await stub.setRules(key, policy, rules, version);
    return reply.version;
  };
