/** The control plane, without the platform: beats, rules with their history, and statistics. */
import type { Clock } from "../../limiter/clock.ts";
import type { StaleRules } from "../../limiter/protocol.ts";
import type {
  AuditEntry,
  BeatCall,
  BeatReply,
  Changed,
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
import type { DeniedKeys, DeniedKeysQuery, DenialsQuery, LoggedDenials } from "../denial-calls.ts";
import type { RecordedCounts, RecordedQuery, Recording, RecordingReply } from "../recording-calls.ts";
import type { SampleIndex, SamplesQuery, Statistics, StatisticsQuery, TopQuery } from "../statistics-calls.ts";
import { Deployments } from "./deployments.ts";
import { type ControlStorage, Meta } from "./storage.ts";
import { metricsText, type RulesMetrics } from "./metrics.ts";
import { Outbox, type Push } from "./outbox.ts";
import { Observers, type ObserverSettings } from "./observers.ts";
import { type Edited, RuleBook } from "./rule-book.ts";
import { Rollbacks } from "./rollback.ts";
import { Scheduler, type Task } from "./scheduler.ts";
import type { Tail } from "./tail.ts";

export interface PlaneParts {
  readonly storage: ControlStorage;
  readonly clock: Clock;
  readonly push: Push;
  readonly randomId: () => string;
  readonly observers: ObserverSettings;
}

export class Plane {
  readonly tail: Tail;
  readonly #clock: Clock;
  readonly #observers: Observers;
  readonly #meta: Meta;
  readonly #book: RuleBook;
  readonly #deployments: Deployments;
  readonly #outbox: Outbox;
  readonly #rollbacks: Rollbacks;
  readonly #scheduler: Scheduler;
  #counted: Pick<RulesMetrics, "version" | "rules" | "pendingRules"> | null = null;

  constructor({ storage, clock, push, randomId, observers }: PlaneParts) {
    const nowMs = clock.now();
    this.#clock = clock;
    this.#observers = new Observers(storage, observers, nowMs);
    this.tail = this.#observers.tail;
    const meta = (this.#meta = new Meta(storage, nowMs));
    const book = (this.#book = new RuleBook(storage, meta, randomId));
    const deployments = (this.#deployments = new Deployments(storage.sql, nowMs));
    this.#outbox = new Outbox({ book, meta, deployments, push, clock });
    const expiry: Task = {
      dueAtMs: () => book.rules.nextExpiryMs,
      run: (atMs) => book.expire(atMs),
    };
    this.#rollbacks = new Rollbacks({
      book,
      meta,
      clock,
      onChanged: (sets) => this.#outbox.add(sets, clock.now()),
      onPause: () => void this.#scheduler.ensure(),
    });
    const tasks = [expiry, this.#outbox, this.#rollbacks, retentionOf(book, meta), ...this.#observers.tasks];
    this.#scheduler = new Scheduler(storage, clock, tasks);
  }

  beat(call: BeatCall): BeatReply {
    const nowMs = this.#tidied();
    const recorded = this.#observers.recordBeat(call, nowMs);
    const wantsPolicies = this.#deployments.see(call, nowMs);
    if (this.#deployments.hasChanged(nowMs)) this.#outbox.resendAll(nowMs);
    if (this.#isAhead(call)) this.#outbox.beginEpochAbove(call.epoch);
    void this.#scheduler.ensure();
    return {
      ...recorded,
      epoch: this.#meta.epoch,
      changed: this.#changedFor(call),
      hasRules: this.#book.audit.lastSeq > 0,
      wantsPolicies,
    };
  }

  policyState(policy: string): PolicyState {
    const nowMs = this.#tidied();
    return this.#shownState(this.#book.policyState(policy, nowMs), nowMs);
  }

  rules(query: RuleQuery): Page<Rule> {
    const nowMs = this.#tidied();
    const { items, cursor } = this.#book.rules.page(query, nowMs);
    return { items: items.map((rule) => this.#shown(rule, nowMs)), cursor };
  }

  rule(id: string): Rule | null {
    const nowMs = this.#tidied();
    const rule = this.#book.rules.live(id, nowMs);
    return rule && this.#shown(rule, nowMs);
  }

  async createRule(call: RuleCreation): Promise<Changed<Rule>> {
    return this.#shownRule(await this.#delivered(this.#book.create(call, this.#tidied())));
  }

  async replaceRule(call: RuleReplacement): Promise<Changed<Rule>> {
    return this.#shownRule(await this.#delivered(this.#book.replace(call, this.#tidied())));
  }

  deleteRule(call: RuleDeletion): Promise<Changed<null>> {
    return this.#delivered(this.#book.delete(call, this.#tidied()));
  }

  changePolicy(patch: PolicyPatch): Changed<PolicyState> {
    const nowMs = this.#tidied();
    const { changed } = this.#book.changePolicy(patch, nowMs);
    void this.#scheduler.ensure();
    if (changed.kind !== "done") return changed;
    return { ...changed, value: this.#shownState(changed.value, nowMs) };
  }

  async rollback(call: Rollback): Promise<RollbackReply> {
    this.#tidied();
    const changed = await this.#rollbacks.begin(call);
    await this.#scheduler.ensure();
    if (changed.kind !== "done") return changed;
    const { progress, restored, keySets } = changed.value;
    const isDelivered = progress.state === "running" || keySets.length === 0 || (await this.#outbox.deliver(keySets));
    const value = restored.map((rule) => this.#current(rule));
    return { kind: "done", value, progress, ...(!isDelivered && { isPending: true }) };
  }

  async undo(call: Undo): Promise<Changed<Undone>> {
    const changed = await this.#delivered(this.#book.undo(call, this.#tidied()));
    if (changed.kind !== "done") return changed;
    const { entries, rules } = changed.value;
    return { ...changed, value: { entries, rules: rules.map((rule) => this.#current(rule)) } };
  }

  rollbackProgress(): RollbackProgress | null {
    return this.#rollbacks.progress;
  }

  note(action: NotedAction): void {
    this.noteAll([action]);
  }

  noteAll(actions: readonly NotedAction[]): void {
    this.#book.note(actions, this.#tidied());
    void this.#scheduler.ensure();
  }

  audit({ cursor, limit }: { readonly cursor?: string; readonly limit: number }): Page<AuditEntry> {
    this.#tidied();
    return this.#book.audit.page(cursor, limit);
  }

  sealedKeys(policy: string, keys: readonly string[]): readonly (string | null)[] {
    const listed = this.#observers.statistics.sealedKeys(policy, keys, this.#clock.now());
    return keys.map((key, index) => {
      const rules = this.#book.rules.ofSet({ policy, key });
      return rules.find(({ sealedKey }) => sealedKey !== null)?.sealedKey ?? listed[index] ?? null;
    });
  }

  statistics(query: StatisticsQuery): Statistics {
    return this.#observers.statistics.statistics(query, this.#watched());
  }

  top(query: TopQuery): readonly TopKey[] {
    return this.#observers.statistics.top(query, this.#watched());
  }

  samples(query: SamplesQuery): SampleIndex {
    return this.#observers.statistics.samples(query);
  }

  sampleChunks(policy: string, ids: readonly number[]): readonly ArrayBuffer[] {
    return this.#observers.statistics.sampleChunks(policy, ids);
  }

  denials(query: DenialsQuery): LoggedDenials {
    return this.#observers.statistics.denials(query, this.#watched());
  }

  deniedKeys(query: DeniedKeysQuery): DeniedKeys {
    return this.#observers.statistics.deniedKeys(query, this.#clock.now());
  }

  record({ actor, ...name }: Recording): RecordingReply {
    const reply = this.#observers.statistics.recordings.start(name, this.#clock.now());
    if (reply.kind === "done") this.note({ action: "record", ...name, actor, note: null });
    return reply;
  }

  stopRecording({ actor, ...name }: Recording): void {
    const wasRecorded = this.#observers.statistics.recordings.stop(name, this.#clock.now());
    if (wasRecorded) this.note({ action: "stop-recording", ...name, actor, note: null });
  }

  recordedCounts(query: RecordedQuery): RecordedCounts {
    this.#watched();
    return this.#observers.statistics.recordings.history(query);
  }

  rulesOfPolicies(): readonly StaleRules[] {
    return [...this.#book.policyRules].map(([policy, rules]) => ({ policy, ...rules }));
  }

  metrics(limits: LimitsInEffect = {}): string {
    const { statistics } = this.#observers;
    const totals = statistics.totals(this.#clock.now());
    return metricsText({ ...this.rulesMetrics(limits), totals, lastBeatMs: statistics.lastBeatMs });
  }

  ticket(): ReturnType<Tail["ticket"]> {
    return this.tail.ticket(this.#clock.now());
  }

  /**
   * The part of the metrics that concerns rules and deployments.
   * @param limits the limits in effect, by policy. Policies without an entry have the limits of their configuration
   */
  rulesMetrics(limits: LimitsInEffect = {}): RulesMetrics {
    const nowMs = this.#tidied();
    const version = this.#book.audit.lastSeq;
    // Counting reads every rule, and reads cost: a scrape counts again only after a change.
    const isExpiring = (this.#book.rules.nextExpiryMs ?? Infinity) <= nowMs;
    if (isExpiring || this.#counted?.version !== version || this.#counted.pendingRules > 0) {
      const counts = this.#book.rules.counts(nowMs);
      this.#counted = {
        version,
        rules: counts.map(({ policy, kind, rules: count }) => ({ policy, kind, count })),
        pendingRules: counts.reduce((sum, { pending }) => sum + pending, 0),
      };
    }
    const inEffect = new Map(Object.entries(limits));
    const policies = this.#deployments
      .policies(nowMs)
      .map((policy) => ({ ...policy, limits: inEffect.get(policy.name) ?? policy.limits }));
    return { ...this.#counted, policies, epochMs: this.#meta.epoch };
  }

  alarm(): Promise<void> {
    return this.#scheduler.alarm();
  }

  /** Notes that an operator reads the statistics: beats are due every second for a while. */
  #watched(): number {
    const nowMs = this.#clock.now();
    this.tail.watch(nowMs);
    return nowMs;
  }

  /** Removes expired rules, so that no answer has them. */
  #tidied(): number {
    const nowMs = this.#clock.now();
    this.#book.expire(nowMs);
    return nowMs;
  }

  /** Pushes the key rules of a change, and waits up to a second for their objects. */
  async #delivered<Value>({ changed, keySets }: Edited<Value>): Promise<Changed<Value>> {
    if (changed.kind !== "done") return changed;
    this.#outbox.add(keySets, this.#clock.now());
    await this.#scheduler.ensure();
    const isPending = keySets.length > 0 && !(await this.#outbox.deliver(keySets));
    return isPending ? { ...changed, isPending } : changed;
  }

  /**
   * Whether an isolate knows newer rules than this storage, which was then recreated, or restored from an older copy.
   */
  #isAhead({ epoch, versions }: BeatCall): boolean {
    if (epoch !== this.#meta.epoch) return epoch > this.#meta.epoch;
    const { lastSeq } = this.#book.audit;
    const { policyRules } = this.#book;
    return Object.entries(versions).some(
      ([policy, version]) => version > lastSeq || version > (policyRules.get(policy)?.version ?? 0),
    );
  }

  /** The rules of the isolate's policies that differ from those that the isolate knows. */
  #changedFor(call: BeatCall): StaleRules[] {
    const known = call.epoch === this.#meta.epoch ? call.versions : {};
    const policies = this.#deployments.policiesOf(call);
    return [...this.#book.policyRules]
      .filter(([policy, { version }]) => {
        const isApplied = policies?.has(policy) ?? true;
        return isApplied && known[policy] !== version;
      })
      .map(([policy, rules]) => ({ policy, ...rules }));
  }

  #shown(rule: Rule, nowMs: number): Rule {
    if (this.#deployments.isOrphan(rule, nowMs)) return { ...rule, state: "orphan" };
    return { ...rule, state: rule.appliedAtMs === null ? "pending" : "applied" };
  }

  #shownState(state: PolicyState, nowMs: number): PolicyState {
    return { ...state, rules: state.rules.map((rule) => this.#shown(rule, nowMs)) };
  }

  #shownRule(changed: Changed<Rule>): Changed<Rule> {
    return changed.kind === "done" ? { ...changed, value: this.#current(changed.value) } : changed;
  }

  /** Reads a rule again after its push, which may have been confirmed. */
  #current(rule: Rule): Rule {
    const current = this.#book.rules.get(rule.id);
    const isSame = current !== null && current.revision === rule.revision;
    return this.#shown(isSame ? current : rule, this.#clock.now());
  }
}

const dayMs = 86_400_000;
/** How soon the next sweep follows when a sweep leaves entries. */
const soonMs = 1_000;

/** Deletes old audit entries and idempotency keys once a day. */
function retentionOf(book: RuleBook, meta: Meta): Task {
  let nextAtMs = Number(meta.read("swept") ?? meta.epoch) + dayMs;
  return {
    // Each change writes an audit entry, so without entries there is nothing to delete.
    dueAtMs: () => (book.audit.lastSeq === 0 ? null : nextAtMs),
    run: (nowMs) => {
      book.idempotency.sweep(nowMs);
      const isMore = book.audit.sweep(nowMs);
      meta.write("swept", String(nowMs));
      nextAtMs = nowMs + (isMore ? soonMs : dayMs);
    },
  };
}
