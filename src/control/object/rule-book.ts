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
  Rule,
  RuleCreation,
  RuleDeletion,
  RuleInput,
  RuleReplacement,
} from "../protocol.ts";
import type { Rollback, RollbackEnds, Undo, Undone } from "../history-calls.ts";
import { AuditLog } from "./audit-log.ts";
import { allPlacements, IdempotencyKeys, isRuleLive, Refused, RuleTable, type SetName } from "./rule-table.ts";
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
interface Reason extends Pick<AuditEntry, "action" | "note" | "rollback"> {
  readonly actor: Actor;
  readonly nowMs: number;
}

/** The earlier state to which a rule is returned. */
interface PastRule {
  readonly id: string;
  /** Null when the rule did not exist. */
  readonly before: Rule | null;
  /** The latest revision that the rule had. */
  readonly lastRevision: number;
}

/** The answer to an undo, as it is stored for a repetition of the call. */
interface StoredUndone extends Undone {
  /** The numbers of the entries, in place of the lists, which are empty then. */
  readonly seqs?: readonly number[];
}

/** A row has at most 2 MB, and a character of UTF-16 takes at most three bytes of UTF-8. */
const mostStoredCharacters = 600_000;

function shortened(undone: Undone): StoredUndone {
  if (JSON.stringify(undone).length <= mostStoredCharacters) return undone;
  return { entries: [], rules: [], seqs: undone.entries.map(({ seq }) => seq) };
}

const system: Actor = { name: "system", via: "system" };

export class RuleBook {
  readonly rules: RuleTable;
  readonly audit: AuditLog;
  readonly idempotency: IdempotencyKeys;
  readonly #storage: ControlStorage;
  readonly #meta: Meta;
  readonly #randomId: () => string;
  /** The rules of each policy that has or had any; null when they have to be read again. */
  #policyRules: ReadonlyMap<string, PolicyRules> | null = null;
  /** The sets that the transaction under way has changed, or must push again. */
  #touched: SetName[] = [];

  /** @param randomId makes ids that are unique even among those of a control plane that was deleted */
  constructor(storage: ControlStorage, meta: Meta, randomId: () => string) {
    this.rules = new RuleTable(storage.sql);
    this.audit = new AuditLog(storage.sql);
    this.idempotency = new IdempotencyKeys(storage.sql);
    this.#storage = storage;
    this.#meta = meta;
    this.#randomId = randomId;
  }

  get policyRules(): ReadonlyMap<string, PolicyRules> {
    this.#policyRules ??= new Map(
      this.rules
        .policyVersions()
        .map(({ policy, version }) => [policy, { epoch: this.#meta.epoch, version, text: this.rules.textOf(policy) }]),
    );
    return this.#policyRules;
  }

  policyState(policy: string, nowMs: number): PolicyState {
    const none = { epoch: this.#meta.epoch, version: 0, text: "[]" };
    const rules = this.rules.ofSet({ policy, key: null }).filter((rule) => isRuleLive(rule, nowMs));
    return { ...(this.policyRules.get(policy) ?? none), rules };
  }

  create(call: RuleCreation, nowMs: number): Edited<Rule> {
    const { input, actor } = call;
    const first = (): Rule => {
      this.#requireRoom(input, nowMs, 1);
      return this.#put(input, null, { actor, action: "create", note: input.note, nowMs });
    };
    const again = ({ id }: Rule): Rule => {
      const current = this.rules.live(id, nowMs);
      if (current === null) throw new Refused({ kind: "unknown" });
      this.#pushAgain(current);
      return current;
    };
    return this.#edit(() => this.idempotency.once(call, nowMs, first, again));
  }

  /** The first request may have been answered while the push was pending, or its answer may have been lost. */
  #pushAgain({ policy, key }: SetName): void {
    const set = key === null ? null : this.rules.set({ policy, key });
    if (set !== null && set.confirmed < set.version) this.#touched.push({ policy, key });
  }

  replace({ id, revision, input, actor }: RuleReplacement, nowMs: number): Edited<Rule> {
    return this.#edit(() => {
      const rule = this.rules.expected(id, revision, nowMs);
      const isMoved = rule.policy !== input.policy || rule.key !== input.key;
      if (isMoved) this.#requireRoom(input, nowMs, 1, 0);
      return this.#put(input, rule, { actor, action: "replace", note: input.note, nowMs });
    });
  }

  delete({ id, revision, actor, note }: RuleDeletion, nowMs: number): Edited<null> {
    return this.#edit(() => {
      const rule = this.rules.expected(id, revision, nowMs);
      this.#remove(rule, { actor, action: "delete", note, nowMs });
      return null;
    });
  }

  /** Afterwards, each part of the patch has one rule or none. */
  changePolicy(patch: PolicyPatch, nowMs: number): Edited<PolicyState> {
    return this.#edit(() => {
      const { policy, parts, actor } = patch;
      const state = this.policyState(policy, nowMs);
      if (state.epoch !== patch.epoch || state.version !== patch.version) {
        throw new Refused({ kind: "outdated", revision: `${state.epoch}-${state.version}` });
      }
      const kinds = new Set(parts.map(({ kind }) => kind));
      const named = state.rules.filter((rule) => rule.scope === "policy" && kinds.has(rule.rule.kind));
      const added = parts.filter(({ rule }) => rule !== null).length - named.length;
      this.#requireRoom({ policy, key: null }, nowMs, added);
      for (const { kind, rule: input } of parts) {
        const [newest, ...others] = named.filter(({ rule }) => rule.kind === kind);
        const note = patch.note ?? input?.note ?? null;
        const removed = input === null && newest !== undefined ? [newest, ...others] : others;
        for (const rule of removed) this.#remove(rule, { actor, action: "delete", note, nowMs });
        const action = newest === undefined ? "create" : "replace";
        if (input !== null) this.#put(input, newest ?? null, { actor, action, note, nowMs });
      }
      this.#policyRules = null;
      return this.policyState(policy, nowMs);
    });
  }

  undo(call: Undo, nowMs: number): Edited<Undone> {
    const { entries: seqs, actor } = call;
    const first = (): StoredUndone => {
      const newestFirst = [...new Set(seqs)].toSorted((one, other) => other - one);
      // All entries are read first: each undo appends an entry, and a full log then removes its oldest entry.
      const changes = newestFirst.map((seq) => this.#undoable(seq, seqs));
      const { lastSeq } = this.audit;
      for (const change of changes) this.#undo(change, { actor, nowMs });
      const added = this.audit.lastSeq - lastSeq;
      if (added === 0) throw new Refused({ kind: "nothing-to-undo" });
      return this.#undoneBy(this.audit.page(undefined, added).items);
    };
    const again = ({ seqs: stored, ...whole }: StoredUndone): StoredUndone => {
      const undone = stored === undefined ? whole : this.#undoneBy(this.audit.intactEntries(stored));
      const rules = undone.entries.flatMap(({ before, after }) => [before ?? [], after ?? []].flat());
      for (const rule of rules) this.#pushAgain(rule);
      return undone;
    };
    return this.#edit(() => this.idempotency.once(call, nowMs, first, again, shortened));
  }

  #undoneBy(entries: readonly AuditEntry[]): Undone {
    const ids = [...new Set(entries.flatMap(({ rule }) => rule ?? []))];
    return { entries, rules: ids.flatMap((id) => this.rules.get(id) ?? []) };
  }

  /**
   * @param undone the numbers of all entries that are undone together
   * @throws Refused
   */
  #undoable(seq: number, undone: readonly number[]): PastRule {
    const { rule: id = null, before = null, after = null } = this.audit.intactEntries([seq])[0] ?? {};
    if (id === null) throw new Refused({ kind: "unknown" });
    const next = this.audit.nextChangeOf(id, seq);
    if (next !== null && !undone.includes(next)) throw new Refused({ kind: "changed-since", seq: next });
    return { id, before, lastRevision: (after ?? before)?.revision ?? 0 };
  }

  #undo(past: PastRule, { actor, nowMs }: Pick<Reason, "actor" | "nowMs">): void {
    const { id, before } = past;
    const returned = liveOrNull(before, nowMs);
    const isAbsent = this.rules.get(id) === null;
    if (returned !== null && isAbsent) this.#requireRoom(returned, nowMs, 1);
    const action = returned === null ? "delete" : isAbsent ? "create" : "replace";
    this.#restore(past, { actor, action, note: returned?.note ?? null, nowMs });
  }

  /**
   * Returns rules to their state before the first change that a rollback undoes, except rules that have expired since.
   */
  restore(
    changes: readonly RuleHistory[],
    { actor, note, toSeq, untilSeq }: Pick<Rollback, "actor" | "note"> & RollbackEnds,
    nowMs: number,
  ): Edited<{ readonly restored: readonly Rule[]; readonly count: number }> {
    return this.#edit(() => {
      const reason: Reason = { actor, action: "rollback", note, nowMs, rollback: { toSeq, untilSeq } };
      const { lastSeq } = this.audit;
      const restored = changes.flatMap(({ id, first, last }) => {
        const before = this.audit.entry(first)?.before ?? null;
        const { after, before: removed } = this.audit.entry(last) ?? {};
        const lastRevision = (after ?? removed)?.revision ?? 0;
        return this.#restore({ id, before, lastRevision }, reason) ?? [];
      });
      return { restored, count: this.audit.lastSeq - lastSeq };
    });
  }

  /** Whether restoring a rule would change anything. */
  differs(id: string, before: Rule | null, nowMs: number): boolean {
    return contentOf(this.rules.get(id)) !== contentOf(liveOrNull(before, nowMs));
  }

  #restore({ id, before, lastRevision }: PastRule, reason: Reason): Rule | null {
    const current = this.rules.get(id);
    const restored = liveOrNull(before, reason.nowMs);
    if (contentOf(current) === contentOf(restored)) return null;
    if (restored !== null) {
      return this.#put(restored, current, reason, { ...restored, revision: current?.revision ?? lastRevision });
    }
    if (current !== null) this.#remove(current, reason);
    return null;
  }

  /** Records actions that change no rule. */
  note(actions: readonly NotedAction[], nowMs: number): void {
    this.#storage.transactionSync(() => {
      for (const { actor, ...action } of actions) {
        const by = { atMs: nowMs, actor: actor.name, via: actor.via };
        const entry = { ...by, ...action, rule: null, before: null, after: null };
        if (action.action === "reveal") this.audit.addReveal(entry);
        else this.audit.append({ ...entry, seq: this.audit.lastSeq + 1 });
      }
    });
  }

  /** Removes rules that have expired. */
  expire(nowMs: number): void {
    const { nextExpiryMs } = this.rules;
    if (nextExpiryMs === null || nextExpiryMs > nowMs) return;
    this.#edit(() => {
      const reason: Reason = { actor: system, action: "expire", note: null, nowMs };
      for (const rule of this.rules.expired(nowMs, expiredAtOnce)) {
        this.#remove(rule, reason);
        this.rules.deleteIfEmpty(rule);
      }
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

  /** @param act may throw `Refused`, which rolls its changes back */
  #edit<Value>(act: () => Value): Edited<Value> {
    this.#touched = [];
    try {
      const value = this.#storage.transactionSync(() => {
        const result = act();
        this.#requireShortTexts();
        return result;
      });
      return { changed: { kind: "done", value }, keySets: this.#touched.filter(({ key }) => key !== null) };
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      return { changed: error.refusal, keySets: [] };
    } finally {
      this.#policyRules = null;
    }
  }

  /** @throws Refused when the rules of a policy would be larger than calls to objects may carry */
  #requireShortTexts(): void {
    const utf8 = new TextEncoder();
    const changed = this.#touched.filter(({ key }) => key === null);
    for (const policy of new Set(changed.map((each) => each.policy))) {
      if (utf8.encode(this.rules.textOf(policy)).length > mostRulesBytes) {
        throw new Refused({ kind: "too-large", mostBytes: mostRulesBytes });
      }
    }
  }

  /** @throws Refused when rules would be added to a full set, or to a full table */
  #requireRoom(set: SetName, nowMs: number, addedToSet: number, addedInTotal = addedToSet): void {
    if (addedInTotal > 0 && this.rules.liveCount(nowMs) + addedInTotal > mostRules) {
      throw new Refused({ kind: "too-many", most: mostRules });
    }
    if (addedToSet <= 0) return;
    const live = this.rules.ofSet(set).filter((rule) => isRuleLive(rule, nowMs));
    if (live.length + addedToSet > mostKeyRules) throw new Refused({ kind: "too-many", most: mostKeyRules });
  }

  /** @param before the state whose id and revision the rule continues: the current one, or an earlier one */
  #put(input: RuleInput, current: Rule | null, reason: Reason, before: Rule | null = current): Rule {
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
    this.#touch(rule, seq);
    if (current !== null && (current.policy !== rule.policy || current.key !== rule.key)) this.#touch(current, seq);
    return rule;
  }

  #remove(rule: Rule, reason: Reason): void {
    const seq = this.audit.lastSeq + 1;
    this.rules.delete(rule.id);
    this.#append(seq, rule, null, reason);
    // The objects drop expired key rules themselves, so these need no new version.
    if (reason.action !== "expire" || rule.key === null) this.#touch(rule, seq);
  }

  /** Gives the set of a rule a new version. */
  #touch({ policy, key, objects }: SetName & Pick<Rule, "objects">, version: number): void {
    const set = { policy, key };
    const { confirmed = 0, placements = [] } = this.rules.set(set) ?? {};
    const added = objects === null ? [] : [objects];
    this.rules.putSet(set, { version, confirmed, placements: allPlacements(placements, added) });
    this.#touched.push(set);
  }

  #append(seq: number, before: Rule | null, after: Rule | null, reason: Reason): void {
    const { actor, action, note, nowMs, rollback } = reason;
    const { id = null, policy = null, key = null } = after ?? before ?? {};
    const by = { atMs: nowMs, actor: actor.name, via: actor.via };
    const change = { policy, key, rule: id, before, after };
    this.audit.append({ seq, ...by, action, ...change, note, ...(rollback !== undefined && { rollback }) });
  }
}

const digitsOfSeq = 8;

/** Ids sort by the time of their creation. */
const newId = (seq: number, random: string): string => `${seq.toString(36).padStart(digitsOfSeq, "0")}${random}`;

const liveOrNull = (rule: Rule | null, nowMs: number): Rule | null =>
  rule !== null && isRuleLive(rule, nowMs) ? rule : null;

/** Two states of a rule with the same content have the same effect and the same note. */
function contentOf(state: Rule | null): string | null {
  if (state === null) return null;
  const { policy, key, rule, expiresAtMs, note, written, objects } = state;
  return JSON.stringify([policy, key, rule, expiresAtMs, note, written, objects]);
}
