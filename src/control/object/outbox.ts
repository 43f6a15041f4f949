/**
 * Pushes key rules to their keys' objects until they confirm them. A push has the whole set of rules of one policy and
 * key, with its version. Lost, late and repeated pushes do no harm, because an object never replaces newer rules by
 * older ones.
 */
import { compareVersions, type RulesVersion } from "../../policy/runtime-rules.ts";
import type { ObjectSettings } from "../../policy/placement.ts";
import { type Clock, withDeadline } from "../../limiter/clock.ts";
import { errorText, report } from "../../observability/events.ts";
import { type KeyRule, type ObjectLocation, objectId, objectLocation } from "../../limiter/protocol.ts";
import type { Deployments } from "./deployments.ts";
import type { Meta } from "./storage.ts";
import type { RuleBook } from "./rule-book.ts";
import { allPlacements, enforcedRule, isRuleLive, type SetName, type SetRow } from "./rule-table.ts";
import type { Task } from "./scheduler.ts";

/** Calls `setRules` of a key's object. Returns the version that the object then has. */
export type Push = (
  location: ObjectLocation,
  key: string,
  policy: string,
  rules: readonly KeyRule[],
  version: RulesVersion,
) => Promise<RulesVersion>;

/** How long the answer to a change waits for the objects. */
const answeredWithinMs = 1_000;
/** A push that its object has not answered within this time is repeated. */
const pushTimeoutMs = 5_000;
const firstDelayMs = 1_000;
const longestDelayMs = 60_000;
/** How many sets one alarm pushes, and how soon the next one follows. */
const pushedAtOnce = 200;
const paceMs = 1_000;
/** How many pushes are under way at once. The object answers other calls between them. */
const lanes = 25;
/**
 * How long after a change of deployments all rules are pushed again. Until the roll-out is complete, objects of a
 * version without key rules may run, and they drop the rules when they write the key.
 */
const resendAfterMs: readonly number[] = [0, 60_000, 600_000];

interface Unconfirmed {
  readonly set: SetName;
  attempts: number;
  dueAtMs: number;
}

/** A run that pushes all sets. `atMs` holds when the run begins or continues, and then when it is repeated. */
interface Resend {
  readonly atMs: readonly number[];
  /** The last set that the current run has pushed; null before the first. */
  readonly after: SetName | null;
}

interface Parts {
  readonly book: RuleBook;
  readonly meta: Meta;
  readonly deployments: Deployments;
  readonly push: Push;
  readonly clock: Clock;
}

export class Outbox implements Task {
  readonly #parts: Parts;
  readonly #unconfirmed = new Map<string, Unconfirmed>();
  #resend: Resend | null;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#resend = JSON.parse(parts.meta.read("resend") ?? "null");
    this.#addAll(parts.clock.now());
  }

  dueAtMs(): number | null {
    let dueAtMs = this.#resend?.atMs[0] ?? Number.POSITIVE_INFINITY;
    for (const each of this.#unconfirmed.values()) dueAtMs = Math.min(dueAtMs, each.dueAtMs);
    return dueAtMs === Number.POSITIVE_INFINITY ? null : dueAtMs;
  }

  async run(nowMs: number): Promise<void> {
    const due = [...this.#unconfirmed.values()].filter(({ dueAtMs }) => dueAtMs <= nowMs);
    await this.#pushAll(due.slice(0, pushedAtOnce).map(({ set }) => set));
    await this.#continueResend(nowMs);
  }

  /** Whether the key's object has confirmed the rules of a set. */
  isConfirmed(set: SetName): boolean {
    return !this.#unconfirmed.has(idOf(set));
  }

  /** Notes that rule sets have changed. The alarm pushes those that `deliver` does not. */
  add(sets: readonly SetName[], nowMs: number): void {
    const dueAtMs = nowMs + firstDelayMs;
    for (const set of sets) this.#unconfirmed.set(idOf(set), { set, attempts: 0, dueAtMs });
  }

  /**
   * Pushes sets now.
   * @returns whether their objects confirmed them within a second
   */
  async deliver(sets: readonly SetName[]): Promise<boolean> {
    const first = sets.slice(0, pushedAtOnce);
    // Slower pushes continue, and the answer states that they are pending.
    await withDeadline(this.#parts.clock, this.#pushAll(first), answeredWithinMs).catch(() => null);
    return sets.every((set) => this.isConfirmed(set));
  }

  /** Pushes all rules again, now and twice later. */
  resendAll(nowMs: number): void {
    if (this.#parts.book.rules.keySetsAfter(null, 1).length === 0) return;
    this.#keepResend({ atMs: resendAfterMs.map((afterMs) => nowMs + afterMs), after: null });
  }

  /** Pushes all rules in a new epoch. */
  beginEpochAbove(known: number): void {
    const nowMs = this.#parts.clock.now();
    this.#parts.book.beginEpochAbove(known, nowMs);
    this.#addAll(nowMs);
  }

  #addAll(nowMs: number): void {
    for (const set of this.#parts.book.rules.unconfirmedSets()) {
      this.#unconfirmed.set(idOf(set), { set, attempts: 0, dueAtMs: nowMs });
    }
  }

  async #continueResend(nowMs: number): Promise<void> {
    const resend = this.#resend;
    if (resend === null || (resend.atMs[0] ?? 0) > nowMs) return;
    const sets = this.#parts.book.rules.keySetsAfter(resend.after, pushedAtOnce);
    const failed = await this.#pushAll(sets);
    for (const set of failed) this.#parts.book.rules.unconfirm(set);
    // Another change of deployments has begun a new run meanwhile.
    if (this.#resend !== resend) return;
    const later = resend.atMs.slice(1);
    if (sets.length === pushedAtOnce) {
      const after = sets.at(-1) ?? null;
      this.#keepResend({ atMs: [this.#parts.clock.now() + paceMs, ...later], after });
    } else {
      this.#keepResend(later.length === 0 ? null : { atMs: later, after: null });
    }
  }

  #keepResend(resend: Resend | null): void {
    this.#resend = resend;
    this.#parts.meta.write("resend", JSON.stringify(resend));
  }

  /** @returns the sets that were not confirmed */
  async #pushAll(sets: readonly SetName[]): Promise<SetName[]> {
    const failures = new Map<SetName, string>();
    const waiting = [...sets];
    const pushNext = async (): Promise<void> => {
      for (let set = waiting.shift(); set !== undefined; set = waiting.shift()) {
        // oxlint-disable-next-line no-await-in-loop -- one after the other in each lane
        const failure = await this.#pushSet(set);
        if (failure !== null) failures.set(set, failure);
      }
    };
    await Promise.all(Array.from({ length: lanes }, pushNext));
    const failed = sets.filter((set) => failures.has(set));
    if (failed.length > 0) {
      const policies = [...new Set(failed.map(({ policy }) => policy))];
      const [error = ""] = failures.values();
      report({ event: "object-silent", call: "setRules", policies, error });
    }
    return failed;
  }

  /**
   * Pushes a set to each place where its object may be. Never rejects.
   * @returns why the set is not confirmed; null if it is
   */
  async #pushSet(set: SetName): Promise<string | null> {
    const { book, meta, clock } = this.#parts;
    const { policy, key } = set;
    const row = book.rules.set(set);
    if (key === null || row === null) {
      this.#unconfirmed.delete(idOf(set));
      return null;
    }
    this.#schedule(set);
    // An object refuses more than 16 rules, and rules that have expired may not be removed yet.
    const rules = book.rules
      .ofSet(set)
      .filter((rule) => isRuleLive(rule, clock.now()))
      .flatMap((rule) => (rule.scope === "key" ? enforcedRule(rule) : []));
    const version: RulesVersion = { epoch: meta.epoch, version: row.version };
    // An empty set need not be pushed to a place that never had rules of it.
    const placements = rules.length === 0 ? row.placements : this.#placements(set, row);
    const pushes = locationsOf(key, placements).map((location) =>
      this.#parts.push(location, key, policy, rules, version),
    );
    try {
      const replies = await withDeadline(clock, Promise.all(pushes), pushTimeoutMs);
      return this.#take(replies, set, version);
    } catch (error) {
      return errorText(error);
    }
  }

  /** @param replies the versions that the objects have after a push of `version` */
  #take(replies: readonly RulesVersion[], set: SetName, version: RulesVersion): string | null {
    const { book, meta, clock } = this.#parts;
    const foreign = replies.find((reply) => this.#isForeign(reply));
    if (foreign !== undefined) {
      this.beginEpochAbove(foreign.epoch);
      return "the object has newer rules than the control plane";
    }
    const isOlder = replies.some((reply) => compareVersions(reply, version) < 0);
    if (replies.length === 0 || isOlder) return "the object did not store the rules";
    // A new epoch has begun meanwhile, and all rules are pushed again.
    if (version.epoch !== meta.epoch) return null;
    book.rules.confirm(set, version.version, clock.now());
    const current = book.rules.set(set)?.version ?? version.version;
    if (current <= version.version) this.#unconfirmed.delete(idOf(set));
    return null;
  }

  /** Schedules the next push of a set, in case the current one fails. */
  #schedule(set: SetName): void {
    const each = this.#unconfirmed.get(idOf(set)) ?? { set, attempts: 0, dueAtMs: 0 };
    const delayMs = Math.min(longestDelayMs, firstDelayMs * 2 ** each.attempts);
    each.attempts++;
    each.dueAtMs = this.#parts.clock.now() + delayMs;
    this.#unconfirmed.set(idOf(set), each);
  }

  /** Whether this storage has never assigned the version. Then it was recreated, or restored from an older copy. */
  #isForeign({ epoch, version }: RulesVersion): boolean {
    const { meta, book } = this.#parts;
    return epoch > meta.epoch || (epoch === meta.epoch && version > book.audit.lastSeq);
  }

  /** Every place where the key's object is or was. Notes new places, since a deletion must reach them too. */
  #placements(set: SetName, row: SetRow): readonly ObjectSettings[] {
    const { book, deployments, clock } = this.#parts;
    const recent = deployments.placements(set.policy, clock.now());
    const placements = allPlacements(row.placements, recent);
    const isKnown = JSON.stringify(placements) === JSON.stringify(row.placements);
    if (!isKnown) book.rules.putSet(set, { ...row, placements });
    return placements;
  }
}

function locationsOf(key: string, placements: readonly ObjectSettings[]): ObjectLocation[] {
  const locations = placements.map((objects) => objectLocation(objects, key));
  return [...new Map(locations.map((location) => [objectId(location), location])).values()];
}

const idOf = ({ policy, key }: SetName): string => JSON.stringify([policy, key]);
