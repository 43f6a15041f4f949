/**
 * The control plane object on the platform: each method answers an isolate's beat or a call of the admin API. All work is in
 * control.ts, which tests also run without the platform.
 */
import { DurableObject } from "cloudflare:workers";
import { alertSettings } from "../../policy/vars/admin.ts";
import { platformClock } from "../../limiter/clock.ts";
import type {
  Actor,
  AuditEntry,
  BeatCall,
  BeatReply,
  Changed,
  ControlPlaneMethods,
  LimitsInEffect,
  NotedAction,
  Page,
  PolicyPatch,
  PolicyState,
  Rule,
  RuleCreation,
  RuleDeletion,
  RuleQuery,
  RuleReplacement,
  TopKey,
} from "../protocol.ts";
import type { Rollback, RollbackProgress, RollbackReply, Undo, Undone } from "../history-calls.ts";
import type { StaleRules } from "../../limiter/protocol.ts";
import type { SampleIndex, SamplesQuery, Statistics, StatisticsQuery, TopQuery } from "../statistics-calls.ts";
import { Control } from "./control.ts";
import { type LimiterObjects, pushTo } from "./push.ts";
import type { Dataset } from "./statistics-export.ts";
import { StatisticsIntake } from "./statistics-intake.ts";
import { hibernatingSockets } from "./tail.ts";

/** The bindings of the Worker. Its variables configure the alerts. */
export interface ControlPlaneBindings {
  readonly RATE_LIMITER: LimiterObjects;
  readonly ANALYTICS?: Dataset;
}

/** The Durable Object that keeps runtime rules, statistics and the audit log. */
export class ControlPlane extends DurableObject<ControlPlaneBindings> implements ControlPlaneMethods {
  readonly #control: Control;
  readonly #intake: StatisticsIntake;

  constructor(ctx: DurableObjectState, env: ControlPlaneBindings) {
    super(ctx, env);
    const intake = {
      alerts: alertSettings({ ...env }),
      dataset: env.ANALYTICS ?? null,
      sockets: hibernatingSockets(ctx),
      waitUntil: (work: Promise<unknown>) => ctx.waitUntil(work),
    };
    this.#intake = new StatisticsIntake(ctx.storage, intake, platformClock.now());
    this.#control = new Control({
      storage: ctx.storage,
      clock: platformClock,
      push: pushTo(env.RATE_LIMITER),
      randomId: () => crypto.randomUUID().slice(0, 8),
      recorder: this.#intake,
    });
  }

  beat(call: BeatCall): BeatReply {
    return this.#control.beat(call);
  }

  policyState(policy: string): PolicyState {
    return this.#control.policyState(policy);
  }

  rules(query: RuleQuery): Page<Rule> {
    return this.#control.rules(query);
  }

  rule(id: string): Rule | null {
    return this.#control.rule(id);
  }

  createRule(call: RuleCreation): Promise<Changed<Rule>> {
    return this.#control.createRule(call);
  }

  replaceRule(call: RuleReplacement): Promise<Changed<Rule>> {
    return this.#control.replaceRule(call);
  }

  deleteRule(call: RuleDeletion): Promise<Changed<null>> {
    return this.#control.deleteRule(call);
  }

  changePolicy(call: PolicyPatch): Changed<PolicyState> {
    return this.#control.changePolicy(call);
  }

  undo(call: Undo): Promise<Changed<Undone>> {
    return this.#control.undo(call);
  }

  rollback(call: Rollback): Promise<RollbackReply> {
    return this.#control.rollback(call);
  }

  rollbackProgress(): RollbackProgress | null {
    return this.#control.rollbackProgress;
  }

  note(action: NotedAction): void {
    this.#control.note(action);
  }

  noteAll(actions: readonly NotedAction[]): void {
    this.#control.noteAll(actions);
  }

  audit(query: { readonly cursor?: string; readonly limit: number }): Page<AuditEntry> {
    return this.#control.audit(query);
  }

  sealedKey(policy: string, key: string): string | null {
    const { statistics } = this.#intake;
    const sealed = this.#control.sealedKey(policy, key);
    return sealed ?? statistics.sealedKey(policy, key, platformClock.now());
  }

  statistics(query: StatisticsQuery): Statistics {
    const { statistics, tail } = this.#intake;
    const nowMs = platformClock.now();
    tail.watch(nowMs);
    return statistics.statistics(query, nowMs);
  }

  top(query: TopQuery): readonly TopKey[] {
    const { statistics, tail } = this.#intake;
    const nowMs = platformClock.now();
    tail.watch(nowMs);
    return statistics.top(query, nowMs);
  }

  samples(query: SamplesQuery): SampleIndex {
    return this.#intake.statistics.samples(query);
  }

  sampleChunks(policy: string, ids: readonly number[]): readonly ArrayBuffer[] {
    return this.#intake.statistics.sampleChunks(policy, ids);
  }

  rulesOfPolicies(): readonly StaleRules[] {
    return this.#control.rulesOfPolicies();
  }

  metrics(limits: LimitsInEffect = {}): string {
    return this.#intake.metrics(this.#control.rulesMetrics(limits), platformClock.now());
  }

  ticket(_actor: Actor): ReturnType<ControlPlaneMethods["ticket"]> {
    return this.#intake.tail.ticket(platformClock.now());
  }

  /** Opens a WebSocket of the tail. */
  override fetch(request: Request): Response {
    return this.#intake.tail.open(request, platformClock.now());
  }

  override webSocketMessage(socket: WebSocket): void {
    this.#intake.tail.received(socket);
  }

  override webSocketClose(socket: WebSocket, code: number): void {
    this.#intake.tail.closed(socket, code);
  }

  override alarm(): Promise<void> {
    return this.#control.alarm();
  }
}
