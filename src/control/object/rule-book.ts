/**
 * The rules, their versions and their history. Each change is one transaction, which writes the rule, the version of
 * its set and the audit entry. Answers never contain expired rules, although these are removed later.
 */
import { mostRulesBytes } from "../../policy/read-runtime-rules.ts";
import type { PolicyRules } from "../../policy/runtime-rules.ts";
import { mostKeyRules } from "../../limiter/protocol.ts";
import type {
  Actor,
  AuditEntry,
  Changed,
  NotedAction,
  PolicyPatch,
  PolicyState,
  RefusedChange,
  Rule,
  RuleCreation,
  RuleDeletion,
  RuleInput,
  RuleReplacement,
} from "../protocol.ts";
import type { Rollback, Undo, Undone } from "../history-calls.ts";
import { AuditLog } from "./audit-log.ts";
import {
  allPlacements,
  enforcedPolicyRule,
  IdempotencyKeys,
  isRuleLive,
  RuleTable,
  type SetName,
} from "./rule-table.ts";
import type { ControlStorage, Meta } from "./storage.ts";
import type { RuleHistory } from "./rollback.ts";

export const mostRules = 20_000;
/** How many expired rules one call removes. */
const expiredAtOnce = 100;

/** The outcome of a change, and the sets of key rules that must be pushed. */
export interface Edited<Value> {
  readonly changed: Changed<Value>;
  readonly keySets: readonly SetName[];
}

/** Why a rule changes, for its audit entry. */
interface Reason extends Pick<AuditEntry, "action" | "note"> {
  readonly actor: Actor;
  readonly nowMs: number;
}

const system: Actor = { name: "system", via: "system" };

/** Rolls a change back. */
class Refused extends Error {
  override readonly name = "Refused";
  readonly refusal: RefusedChange;

  constructor(refusal: RefusedChange) {
    super(refusal.kind);
    this.refusal = refusal;
  }
}

export class RuleBook {
  readonly rules: RuleTable;
  readonly audit: AuditLog;
  readonly idempotency: IdempotencyKeys<Rule>;
  readonly #undone: IdempotencyKeys<Undone>;
  readonly #storage: ControlStorage;
  readonly #meta: Meta;
  readonly #randomId: () => string;
  /** The rules of each policy that has or had any; null when they have to be read again. */
  #policyRules: ReadonlyMap<string, PolicyRules> | null = null;

  /** @param randomId makes ids that are unique even among those of a control plane that was deleted */
  constructor(storage: ControlStorage, meta: Meta, randomId: () => string) {
    this.rules = new RuleTable(storage.sql);
    this.audit = new AuditLog(storage.sql);
    this.idempotency = new IdempotencyKeys(storage.sql);
    this.#undone = new IdempotencyKeys(storage.sql);
    this.#storage = storage;
    this.#meta = meta;
    this.#randomId = randomId;
  }

  get policyRules(): ReadonlyMap<string, PolicyRules> {
    this.#policyRules ??= new Map(
      this.rules
        .policyVersions()
        .map(({ policy, version }) => [policy, { epoch: this.#meta.epoch, version, text: this.#textOf(policy) }]),
    );
    return this.#policyRules;
  }

  /** The rules of a policy as isolates receive them. */
  #textOf(policy: string): string {
    const rules = this.rules
      .ofSet({ policy, key: null })
      .flatMap((rule) => (rule.scope === "policy" ? enforcedPolicyRule(rule) : []));
    return JSON.stringify(rules);
  }

  policyState(policy: string, nowMs: number): PolicyState {
    const none = { epoch: this.#meta.epoch, version: 0, text: "[]" };
    const rules = this.rules.ofSet({ policy, key: null }).filter((rule) => isRuleLive(rule, nowMs));
    return { ...(this.policyRules.get(policy) ?? none), rules };
  }

  /** Null also for a rule that has expired, and is not removed yet. */
  #live(id: string, nowMs: number): Rule | null {
    const rule = this.rules.get(id);
    return rule !== null && isRuleLive(rule, nowMs) ? rule : null;
  }

  create({ input, actor, idempotency }: RuleCreation, nowMs: number): Edited<Rule> {
    return this.#edit<Rule>((touched) => {
      const known = idempotency && this.idempotency.find(actor, idempotency, nowMs);
      if (known === "key-reused") return { kind: "key-reused" };
      if (known !== null) {
        const current = this.#live(known.id, nowMs);
        if (current === null) return { kind: "unknown" };
        const { policy, key, appliedAtMs } = current;
        // The first request may have been answered while the push was pending, or its answer may have been lost.
        if (key !== null && appliedAtMs === null) touched.push({ policy, key });
        return { kind: "done", value: current };
      }
      const excess = this.#excess(input, nowMs, 1);
      if (excess !== null) return excess;
      const reason: Reason = { actor, action: "create", note: input.note, nowMs };
      const rule = this.#put(input, null, reason, touched);
      if (idempotency !== null) this.idempotency.add(actor, idempotency, rule, nowMs);
      return { kind: "done", value: rule };
    });
  }

  replace({ id, revision, input, actor }: RuleReplacement, nowMs: number): Edited<Rule> {
    return this.#edit<Rule>((touched) => {
      const rule = this.#live(id, nowMs);
      if (rule === null) return { kind: "unknown" };
      if (rule.revision !== revision) return outdated(rule);
      const isMoved = rule.policy !== input.policy || rule.key !== input.key;
      const excess = isMoved ? this.#excess(input, nowMs, 1, 0) : null;
      if (excess !== null) return excess;
      const reason: Reason = { actor, action: "replace", note: input.note, nowMs };
      const replaced = this.#put(input, rule, reason, touched);
      if (isMoved) this.#touch(rule, replaced.version, touched);
      return { kind: "done", value: replaced };
    });
  }

  delete({ id, revision, actor, note }: RuleDeletion, nowMs: number): Edited<null> {
    return this.#edit<null>((touched) => {
      const rule = this.#live(id, nowMs);
      if (rule === null) return { kind: "unknown" };
      if (rule.revision !== revision) return outdated(rule);
      this.#remove(rule, { actor, action: "delete", note, nowMs }, touched);
      return { kind: "done", value: null };
    });
  }

  /** Afterwards each named part has one rule or none. */
  changePolicy(patch: PolicyPatch, nowMs: number): Edited<PolicyState> {
    return this.#edit<PolicyState>((touched) => {
      const { policy, parts, actor } = patch;
      const state = this.policyState(policy, nowMs);
      if (state.epoch !== patch.epoch || state.version !== patch.version) {
        return { kind: "outdated", revision: `${state.epoch}-${state.version}` };
      }
      const kinds = new Set(parts.map(({ kind }) => kind));
      const named = state.rules.filter((rule) => rule.scope === "policy" && kinds.has(rule.rule.kind));
      const added = parts.filter(({ rule }) => rule !== null).length - named.length;
      const excess = this.#excess({ policy, key: null }, nowMs, added);
      if (excess !== null) return excess;
      for (const { kind, rule: input } of parts) {
        const [newest, ...others] = named.filter(({ rule }) => rule.kind === kind);
        const note = patch.note ?? input?.note ?? null;
        const removed = input === null && newest !== undefined ? [newest, ...others] : others;
        for (const rule of removed) {
          this.#remove(rule, { actor, action: "delete", note, nowMs }, touched);
        }
        const action = newest === undefined ? "create" : "replace";
        if (input !== null) this.#put(input, newest ?? null, { actor, action, note, nowMs }, touched);
      }
      this.#policyRules = null;
      return { kind: "done", value: this.policyState(policy, nowMs) };
    });
  }

  undo({ entries: seqs, actor, idempotency }: Undo, nowMs: number): Edited<Undone> {
    return this.#edit<Undone>((touched) => {
      const known = idempotency && this.#undone.find(actor, idempotency, nowMs);
      if (known === "key-reused") return { kind: "key-reused" };
      if (known !== null) return { kind: "done", value: known };
      const newestFirst = [...new Set(seqs)].toSorted((one, other) => other - one);
      const { lastSeq } = this.audit;
      for (const seq of newestFirst) this.#undoEntry(seq, seqs, { actor, nowMs }, touched);
      const added = this.audit.lastSeq - lastSeq;
      if (added === 0) return { kind: "nothing-to-undo" };
      const entries = this.audit.page(undefined, added).items;
      const ids = [...new Set(entries.flatMap(({ rule }) => rule ?? []))];
      const undone = { entries, rules: ids.flatMap((id) => this.rules.get(id) ?? []) };
      if (idempotency !== null) this.#undone.add(actor, idempotency, undone, nowMs);
      return { kind: "done", value: undone };
    });
  }

  /**
   * @param undone the numbers of all entries that are undone together
   * @throws Refused
   */
  #undoEntry(
    seq: number,
    undone: readonly number[],
    { actor, nowMs }: Pick<Reason, "actor" | "nowMs">,
    touched: SetName[],
  ): void {
    const { rule: id = null, before = null } = this.audit.entry(seq) ?? {};
    if (id === null) throw new Refused({ kind: "unknown" });
    const next = this.audit.nextChangeOf(id, seq);
    if (next !== null && !undone.includes(next)) throw new Refused({ kind: "changed-since", seq: next });
    const history = { id, first: seq, last: seq };
    const returned = before !== null && isRuleLive(before, nowMs) ? before : null;
    const isAbsent = this.rules.get(id) === null;
    const excess = returned !== null && isAbsent ? this.#excess(returned, nowMs, 1) : null;
    if (excess !== null) throw new Refused(excess);
    const action = returned === null ? "delete" : isAbsent ? "create" : "replace";
    this.#restore(history, { actor, action, note: returned?.note ?? null, nowMs }, touched);
  }

  /**
   * Returns rules to their state before the first change that a rollback undoes, except rules that have expired since.
   */
  restore(
    changes: readonly RuleHistory[],
    { actor, note }: Pick<Rollback, "actor" | "note">,
    nowMs: number,
  ): Edited<{ readonly restored: readonly Rule[]; readonly count: number }> {
    return this.#edit((touched) => {
      const reason: Reason = { actor, action: "rollback", note, nowMs };
      const { lastSeq } = this.audit;
      const restored = changes.flatMap((change) => this.#restore(change, reason, touched) ?? []);
      return { kind: "done", value: { restored, count: this.audit.lastSeq - lastSeq } };
    });
  }

  /** Whether restoring a rule would change anything. */
  differs(id: string, before: Rule | null, nowMs: number): boolean {
    const current = this.rules.get(id);
    if (before === null || !isRuleLive(before, nowMs)) return current !== null;
    return current === null || !isSameRule(current, before);
  }

  #restore({ id, first, last }: Omit<RuleHistory, "isOfPolicy">, reason: Reason, touched: SetName[]): Rule | null {
    const before = this.audit.ruleBefore(first);
    if (!this.differs(id, before, reason.nowMs)) return null;
    const current = this.rules.get(id);
    if (before === null || !isRuleLive(before, reason.nowMs)) {
      if (current !== null) this.#remove(current, reason, touched);
      return null;
    }
    const revision = current?.revision ?? this.audit.revisionAfter(last);
    const rule = this.#put(before, { ...before, revision }, reason, touched, current);
    const isMoved = current !== null && (current.policy !== rule.policy || current.key !== rule.key);
    if (isMoved) this.#touch(current, rule.version, touched);
    return rule;
  }

  /** Records actions that change no rule. */
  note(actions: readonly NotedAction[], nowMs: number): void {
    this.#storage.transactionSync(() => {
      for (const { action, policy, key, actor, note } of actions) {
        const { name, via } = actor;
        const change = { rule: null, before: null, after: null, note };
        const entry = { atMs: nowMs, actor: name, via, action, policy, key, ...change };
        if (action === "reveal") this.audit.addReveal(entry);
        else this.audit.append({ ...entry, seq: this.audit.lastSeq + 1 });
      }
    });
  }

  /** Removes rules that have expired. The objects drop expired key rules themselves, so these need no new version. */
  expire(nowMs: number): void {
    const { nextExpiryMs } = this.rules;
    if (nextExpiryMs === null || nextExpiryMs > nowMs) return;
    this.#edit((touched) => {
      for (const rule of this.rules.expired(nowMs, expiredAtOnce)) {
        const reason: Reason = { actor: system, action: "expire", note: null, nowMs };
        this.#remove(rule, reason, rule.key === null ? touched : null);
        this.rules.deleteIfEmpty(rule);
      }
      return { kind: "done", value: null };
    });
    this.rules.forgetNextExpiry();
  }

  /** Begins an epoch above one that isolates or objects know: this storage is a new one, or an older copy. */
  beginEpochAbove(known: number, nowMs: number): void {
    this.#policyRules = null;
    this.#storage.transactionSync(() => {
      this.rules.unconfirm(null);
      this.#meta.epoch = Math.max(nowMs, known + 1);
    });
  }

  #edit<Value>(act: (touched: SetName[]) => Changed<Value>): Edited<Value> {
    const touched: SetName[] = [];
    try {
      const changed = this.#storage.transactionSync(() => {
        const result = act(touched);
        this.#requireShortTexts(touched);
        return result;
      });
      return { changed, keySets: touched.filter(({ key }) => key !== null) };
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      return { changed: error.refusal, keySets: [] };
    } finally {
      this.#policyRules = null;
    }
  }

  /** @throws Refused when the rules of a policy would be larger than calls to objects may carry */
  #requireShortTexts(touched: readonly SetName[]): void {
    const utf8 = new TextEncoder();
    const changed = touched.filter(({ key }) => key === null);
    for (const policy of new Set(changed.map((each) => each.policy))) {
      if (utf8.encode(this.#textOf(policy)).length > mostRulesBytes) {
        throw new Refused({ kind: "too-large", mostBytes: mostRulesBytes });
      }
    }
  }

  /** The refusal of a change that adds rules to a full set, or to a full table; null if they fit. */
  #excess(set: SetName, nowMs: number, addedToSet: number, addedInTotal = addedToSet): RefusedChange | null {
    if (addedInTotal > 0 && this.rules.liveCount(nowMs) + addedInTotal > mostRules) {
      return { kind: "too-many", most: mostRules };
    }
    if (addedToSet <= 0) return null;
    const live = this.rules.ofSet(set).filter((rule) => isRuleLive(rule, nowMs));
    return live.length + addedToSet > mostKeyRules ? { kind: "too-many", most: mostKeyRules } : null;
  }

  #put(input: RuleInput, before: Rule | null, reason: Reason, touched: SetName[], current: Rule | null = before): Rule {
    const { actor, nowMs } = reason;
    const seq = this.audit.lastSeq + 1;
    const rule: Rule = {
      ...input,
      id: before?.id ?? newId(seq, this.#randomId()),
      revision: (before?.revision ?? 0) + 1,
      epoch: this.#meta.epoch,
      version: seq,
      startsAtMs: before?.startsAtMs ?? nowMs,
      actor: actor.name,
      appliedAtMs: input.key === null ? nowMs : null,
    };
    this.rules.put(rule);
    this.#append(seq, current, rule, reason);
    this.#touch(rule, seq, touched);
    return rule;
  }

  /** @param touched null when the set needs no new version */
  #remove(rule: Rule, reason: Reason, touched: SetName[] | null): void {
    const seq = this.audit.lastSeq + 1;
    this.rules.delete(rule.id);
    this.#append(seq, rule, null, reason);
    if (touched !== null) this.#touch(rule, seq, touched);
  }

  /** Gives the set of a rule a new version. */
  #touch({ policy, key, objects }: SetName & Pick<Rule, "objects">, version: number, touched: SetName[]): void {
    const set = { policy, key };
    const { confirmed = 0, placements = [] } = this.rules.set(set) ?? {};
    const added = objects === null ? [] : [objects];
    this.rules.putSet(set, { version, confirmed, placements: allPlacements(placements, added) });
    touched.push(set);
  }

  #append(seq: number, before: Rule | null, after: Rule | null, reason: Reason): void {
    const { actor, action, note, nowMs } = reason;
    const { id = null, policy = null, key = null } = after ?? before ?? {};
    const { name, via } = actor;
    this.audit.append({ seq, atMs: nowMs, actor: name, via, action, policy, key, rule: id, before, after, note });
  }
}

const digitsOfSeq = 8;

/** Ids sort by the time of their creation. */
const newId = (seq: number, random: string): string => `${seq.toString(36).padStart(digitsOfSeq, "0")}${random}`;

const outdated = ({ revision }: Rule): Changed<never> => ({ kind: "outdated", revision: String(revision) });

/** Whether two states of a rule have the same effect and the same note. */
const isSameRule = (one: Rule, other: Rule): boolean => contentOf(one) === contentOf(other);

const contentOf = ({ policy, key, rule, expiresAtMs, note, written, objects }: Rule): string =>
  JSON.stringify([policy, key, rule, expiresAtMs, note, written, objects]);
