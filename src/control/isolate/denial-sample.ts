/**
 * Denials since the last batch, which the batches of the statistics take to the control plane. A flood by one key is counted
 * in few entries, and a flood by many keys of one policy never displaces the entries of other policies.
 */
import type { PlainKey } from "../../policy/key.ts";
import type { Decision } from "../../strategies/index.ts";
import type { DenialBatch, DenialEntry, LoggedLimit, LoggedReason } from "../denial-calls.ts";
import type { OutcomeName } from "../protocol.ts";
import type { SealCandidate } from "./batches.ts";
import { isTooLong } from "./key-sealer.ts";

/** The most entries of a batch, which then has at most about 15 KB. */
const mostEntries = 48;
/** The most entries of one key, policy, reason and minute in a batch. Further denials are counted in the last of them. */
const mostOfOneKey = 2;

export interface DecidedKey {
  readonly partitionKey: string;
  readonly cost: number;
}

/** A denial of an enforced policy. */
export interface DecidedDenial {
  readonly policy: string;
  readonly outcome: OutcomeName;
  readonly reason: LoggedReason;
  /** Null when a required key part is missing. */
  readonly key: DecidedKey | null;
  /** Null when no limit has decided. */
  readonly decision: Decision | null;
  readonly plain: PlainKey | null;
}

/** A denial, described after it is known that it gets an entry. */
export type DescribedDenial = Omit<
  DenialEntry,
  "instance" | "policy" | "key" | "count" | "agoMs" | "lastAgoMs" | "countedInMs" | "sealed"
>;

const loggedLimits = (decision: Decision | null): LoggedLimit[] =>
  (decision?.limits ?? [])
    .filter(({ allowed }) => !allowed)
    .map(({ name, capacity, remaining, windowMs }) => ({ name, used: capacity - remaining, capacity, windowMs }));

/** @param denial its plain key is null when plain keys are not kept */
export const describedDenial = (
  { outcome, reason, key, decision, plain }: DecidedDenial,
  colo: string,
): DescribedDenial & { readonly plain: PlainKey | null } => ({
  outcome,
  reason,
  limits: reason === "deny" ? [] : loggedLimits(decision),
  retryAfterMs: decision?.retryAfterMs ?? null,
  bannedForMs: decision?.bannedForMs ?? 0,
  cost: key?.cost ?? 0,
  colo,
  plain: plain === null || isTooLong(plain) ? null : plain,
});

interface NotedDenial extends DescribedDenial {
  readonly policy: string;
  readonly key: string | null;
  readonly instance: string;
  readonly group: string;
  readonly plain: PlainKey | null;
  readonly countedInMs: number;
  readonly atMs: number;
  lastAtMs: number;
  count: number;
}

interface DenialGroup {
  readonly policy: string;
  readonly key: string | null;
  readonly reason: string;
  /** The minute in which the statistics count the denial. An entry is of one minute, as counts are. */
  readonly countedInMs: number;
}

type SentEntry = DenialEntry & { sealed?: string };

export interface DrainedDenials {
  readonly batch: DenialBatch;
  readonly named: readonly SealCandidate[];
}

export class DenialSample {
  readonly #instances = new Instances();
  #entries: NotedDenial[] = [];
  /** The entries of each policy, key and reason. */
  readonly #groups = new Map<string, NotedDenial[]>();
  readonly #ofPolicy = new Map<string, number>();
  readonly #lost = new Map<string, number>();

  /**
   * Logs a denial. Most denials of a flood only increase a count.
   * @param instance the instance of the same request's denial by another policy; null for its first denial
   * @returns the instance of the entry, also when there is no room for it
   */
  note(
    { policy, key, reason, countedInMs }: DenialGroup,
    nowMs: number,
    instance: string | null,
    describe: () => DescribedDenial & { readonly plain: PlainKey | null },
  ): string {
    const group = `${countedInMs} ${policy} ${key ?? ""} ${reason}`;
    const known = this.#groups.get(group) ?? [];
    const same =
      known.find((entry) => entry.instance === instance) ?? (known.length < mostOfOneKey ? null : known.at(-1));
    if (same !== null && same !== undefined) {
      same.count++;
      same.lastAtMs = nowMs;
      return same.instance;
    }
    const own = instance ?? this.#instances.next();
    if (!this.#makeRoom(policy)) {
      this.#lose(policy, 1);
      return own;
    }
    const times = { countedInMs, atMs: nowMs, lastAtMs: nowMs };
    const entry = { policy, key, instance: own, group, ...times, count: 1, ...describe() };
    this.#entries.push(entry);
    this.#groups.set(group, [...known, entry]);
    this.#ofPolicy.set(policy, (this.#ofPolicy.get(policy) ?? 0) + 1);
    return own;
  }

  /** Removes and returns the entries; null when there are none. */
  drain(nowMs: number): DrainedDenials | null {
    if (this.#entries.length === 0 && this.#lost.size === 0) return null;
    const drained = this.#entries.map(({ group: _group, plain, atMs, lastAtMs, ...facts }) => {
      const agoMs = Math.max(0, nowMs - atMs);
      const entry: SentEntry = { ...facts, agoMs, lastAgoMs: Math.max(0, nowMs - lastAtMs) };
      return { entry, plain };
    });
    const named = drained.flatMap(({ entry, plain }, rank): SealCandidate[] => {
      const { policy, key } = entry;
      return plain === null || key === null ? [] : [{ policy, rank, key, listed: entry, plain }];
    });
    const batch = { entries: drained.map(({ entry }) => entry), lost: Object.fromEntries(this.#lost) };
    this.#entries = [];
    this.#groups.clear();
    this.#ofPolicy.clear();
    this.#lost.clear();
    return { batch, named };
  }

  /** Drops the last entry of the policy with the most entries, if the new entry's policy has fewer even with it. */
  #makeRoom(policy: string): boolean {
    if (this.#entries.length < mostEntries) return true;
    const most = Math.max(...this.#ofPolicy.values());
    if ((this.#ofPolicy.get(policy) ?? 0) + 1 >= most) return false;
    const last = this.#entries.findLastIndex((entry) => this.#ofPolicy.get(entry.policy) === most);
    const [dropped] = this.#entries.splice(last, 1);
    if (dropped === undefined) return false;
    const others = (this.#groups.get(dropped.group) ?? []).filter((entry) => entry !== dropped);
    if (others.length === 0) this.#groups.delete(dropped.group);
    else this.#groups.set(dropped.group, others);
    this.#ofPolicy.set(dropped.policy, most - 1);
    this.#lose(dropped.policy, dropped.count);
    return true;
  }

  #lose(policy: string, count: number): void {
    this.#lost.set(policy, (this.#lost.get(policy) ?? 0) + count);
  }
}

/**
 * UUIDs of version 8: 90 random bits of the isolate, and a permutation of a counter, so that no random number is needed
 * for each denial and a client cannot count the denials of others.
 */
class Instances {
  readonly #prefix: string;
  readonly #factor: number;
  #last: number;

  constructor() {
    const random = crypto.randomUUID();
    this.#prefix = `${random.slice(0, 14)}8${random.slice(15, 28)}`;
    const [factor = 0, first = 0] = crypto.getRandomValues(new Uint32Array(2));
    // An odd factor maps the 2^32 values of the counter to as many different ones.
    this.#factor = factor | 1;
    this.#last = first;
  }

  next(): string {
    this.#last = (this.#last + 1) | 0;
    const digits = (Math.imul(this.#last, this.#factor) >>> 0).toString(16).padStart(8, "0");
    return this.#prefix + digits;
  }
}
