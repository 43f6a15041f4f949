/**
 * Denials that an isolate caches, so that a flood of denied requests does not call the object each time. Only denials
 * are cached. A cached denial is no older than a second, so `remaining` and the waits may be slightly out of date.
 */
import type { Decision } from "../../strategies/index.ts";
import { BoundedMap } from "../../policy/caches.ts";
import type { CheckReply } from "../protocol.ts";
import {
  aged,
  chargeTextOf,
  hasChargeTexts,
  isTree,
  objectKeyOf,
  type Outcome,
  outcomesOf,
  ruleSizeBytes,
  type Spend,
} from "./outcome.ts";

export const longestCacheMs = 1_000;

/** Bound the memory of an isolate. Denials of one key differ in their policies or costs, those of a tree also in their keys. */
const maximumKeys = 4_096;
const maximumDenialsPerKey = 8;
const maximumDenialsPerTree = 64;
const maximumBytes = 4_000_000;
/** Approximate memory of a denial with its cached answer, and of each of its limits, in bytes. */
const denialBytes = 1_200;
const limitBytes = 600;

/** The times of an object's reply, in milliseconds since the Unix epoch by the isolate's clock. */
export interface ReplyTimes {
  readonly calledAtMs: number;
  readonly answeredAtMs: number;
}

/**
 * The age of a cached reply. It is valid for `validMs` from the call; its waits count down from the answer.
 * @returns milliseconds since the answer; null when the reply is no longer valid or the clock has stepped back
 */
export function cachedForMs({ calledAtMs, answeredAtMs }: ReplyTimes, validMs: number, nowMs: number): number | null {
  const sinceCallMs = nowMs - calledAtMs;
  if (sinceCallMs < 0 || sinceCallMs >= validMs) return null;
  return Math.max(0, nowMs - answeredAtMs);
}

interface Denial {
  /** See `chargeTextOf`. */
  readonly texts: readonly string[];
  readonly partitionKeys: readonly string[];
  readonly costs: readonly number[];
  readonly reply: CheckReply;
  readonly times: ReplyTimes;
  readonly validMs: number;
}

/** A denial from the cache, as it applies to one request. */
export class CachedDenial {
  /** The same object as long as the denial is cached, so that an answer can be cached with it. */
  readonly denial: Denial;
  /** The time since the object's reply, in milliseconds: every wait is shorter by it. */
  readonly ageMs: number;
  readonly #group: readonly Spend[];
  readonly #nowMs: number;
  #outcomes: readonly Outcome[] | null = null;

  constructor(denial: Denial, group: readonly Spend[], ageMs: number, nowMs: number) {
    this.denial = denial;
    this.ageMs = ageMs;
    this.#group = group;
    this.#nowMs = nowMs;
  }

  /** Computed when first read. */
  get outcomes(): readonly Outcome[] {
    const { reply } = this.denial;
    this.#outcomes ??= outcomesOf(this.#group, {
      ...reply,
      decisions: reply.decisions.map((decision) => aged(decision, this.ageMs)),
      spentAtMs: reply.decisions.map(() => this.#nowMs),
    });
    return this.#outcomes;
  }
}

export class DenyCache {
  readonly #byKey = new BoundedMap<readonly Denial[]>(maximumKeys, { mostBytes: maximumBytes, bytesOf });

  /** The cached denial of these spends at `nowMs`; null when they have none. */
  recall(group: readonly Spend[], nowMs: number): CachedDenial | null {
    const [first] = group;
    const denials = first === undefined ? undefined : this.#byKey.get(objectKeyOf(first));
    const denial = denials?.find((each) => isOf(each, group));
    if (denial === undefined) return null;
    const ageMs = cachedForMs(denial.times, denial.validMs, nowMs);
    return ageMs === null ? null : new CachedDenial(denial, group, ageMs, nowMs);
  }

  /** Caches a reply that is a firm denial. Ignores other replies. */
  remember(group: readonly Spend[], reply: CheckReply, times: ReplyTimes): void {
    const [first] = group;
    if (first === undefined || reply.isFirm !== true || !group.every(isCacheable)) return;
    const objectKey = objectKeyOf(first);
    const denial: Denial = {
      texts: group.map(({ policy }) => chargeTextOf(policy)),
      partitionKeys: group.map(({ partitionKey }) => partitionKey),
      costs: group.map(({ cost }) => cost),
      reply,
      times,
      validMs: Math.min(reply.firmForMs ?? longestCacheMs, unchangedForMs(reply.decisions)),
    };
    const others = (this.#byKey.get(objectKey) ?? []).filter((each) => !isOf(each, group));
    const most = isTree(group) ? maximumDenialsPerTree : maximumDenialsPerKey;
    this.#byKey.set(objectKey, [denial, ...others].slice(0, most));
  }

  /**
   * Drops the denials of a key and of its tree, after a spend, a refund or a DELETE. Other isolates keep theirs for up to a
   * second.
   */
  forget(objectKey: string): void {
    this.#byKey.delete(objectKey);
  }
}

function bytesOf(denials: readonly Denial[]): number {
  const decisions = denials.flatMap(({ reply }) => reply.decisions);
  const limits = decisions.reduce((sum, decision) => sum + decision.limits.length, 0);
  const rules = denials.flatMap(({ reply }) => reply.keyRules ?? []);
  const ruleBytes = rules.reduce((sum, rule) => sum + (rule === null ? 0 : ruleSizeBytes(rule)), 0);
  return denials.length * denialBytes + limits * limitBytes + ruleBytes;
}

/**
 * Not cached: denials of reservations, because a refund may make room at any time, and denials of dry runs, because
 * each one is logged.
 */
const isCacheable = ({ policy, ttlMs }: Spend): boolean =>
  policy.isDenyCached && !policy.isDryRun && ttlMs === undefined;

/**
 * Whether the denial is for the same policies, limits, rules and costs. Checks again whether the policies are dry runs:
 * the expiry of a policy's mode changes no version.
 */
const isOf = ({ texts, partitionKeys, costs }: Denial, group: readonly Spend[]): boolean =>
  hasChargeTexts(group, texts) &&
  group.every(
    (spend, index) => spend.cost === costs[index] && spend.partitionKey === partitionKeys[index] && isCacheable(spend),
  );

/**
 * For how long the decisions stay the same except for their waits. When the first wait ends, `remaining` may change
 * too.
 */
function unchangedForMs(decisions: readonly Decision[]): number {
  const waits = decisions.flatMap(({ allowed, retryAfterMs, bannedForMs, limits }) => [
    ...(allowed || retryAfterMs === null ? [] : [retryAfterMs]),
    ...(bannedForMs > 0 ? [bannedForMs] : []),
    ...limits.flatMap((limit) => (limit.replenishAfterMs > 0 ? limit.replenishAfterMs : [])),
  ]);
  return Math.min(longestCacheMs, ...waits);
}
