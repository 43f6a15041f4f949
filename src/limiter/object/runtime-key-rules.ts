/**
 * The key rules of one key, by policy. They end by the object's clock: a rule has no effect from its `expiresAtMs` on.
 *
 * A rule that has ended stays ended while the key is in memory, even if the clock then steps back; the next write of
 * the key drops it from storage. A clock that was ahead may therefore end a rule too early. The control plane restores
 * such a rule when it pushes the rules again: a set of the same version replaces the stored one.
 */
import { internedLimits, isCount, type Limit, strategies } from "../../strategies/index.ts";
import { type RulesVersion, compareVersions } from "../../policy/runtime-rules.ts";
import { isRecord } from "../../validation/json.ts";
import { type KeyRule, isLive } from "../protocol.ts";

const dayMs = 86_400_000;

/**
 * How far ahead the idle time of a row with live rules may be. A sweep renews the rows whose rules are live at that
 * time.
 */
const longestKeptMs = 30 * dayMs;
/** How long the version of a set without live rules is kept: older calls that are still under way must not replace it. */
const versionKeptMs = 3_600_000;

/** Estimates of memory. */
const bytesOfSet = 250;
const bytesOfRule = 250;

interface RuleSet {
  readonly version: RulesVersion;
  readonly setAtMs: number;
  /** The newest first. None of them had expired when `end` was last called. */
  readonly rules: readonly KeyRule[];
}

const noRules: readonly KeyRule[] = [];
const never = Number.POSITIVE_INFINITY;

/** The rule that decides a charge, or that gives its limits: the precedence of key rules. Null without one. */
export function decidingRule(rules: readonly KeyRule[], isBanned: boolean): KeyRule | null {
  if (rules.length === 0) return null;
  const newest = (kind: KeyRule["kind"]): KeyRule | null => rules.find((rule) => rule.kind === kind) ?? null;
  const access = isBanned ? null : (newest("block") ?? newest("allow"));
  return access ?? newest("limits");
}

/** The limits of a charge under its key's rules. */
export function limitsUnder(rules: readonly KeyRule[], limits: readonly Limit[]): readonly Limit[] {
  for (const rule of rules) if (rule.kind === "limits") return rule.limits;
  return limits;
}

/** When the first of the rules ends; `Infinity` if none does. */
export const firstEndMs = (rules: readonly KeyRule[]): number =>
  rules.reduce((firstMs, { expiresAtMs = never }) => Math.min(firstMs, expiresAtMs), never);

/** The rules that are live at an instant. */
export const rulesAt = (rules: readonly KeyRule[], atMs: number): readonly KeyRule[] =>
  rules.filter((rule) => isLive(rule, atMs));

export class KeyRuleSets {
  readonly #sets = new Map<string, RuleSet>();
  #firstEndMs = never;

  get isEmpty(): boolean {
    return this.#sets.size === 0;
  }

  /** The live rules of a policy, the newest first. */
  of(policy: string): readonly KeyRule[] {
    return this.#sets.get(policy)?.rules ?? noRules;
  }

  versionOf(policy: string): RulesVersion | null {
    return this.#sets.get(policy)?.version ?? null;
  }

  /** Replaces the rules of a policy. Returns false if it has rules of a newer version. */
  set(policy: string, rules: readonly KeyRule[], version: RulesVersion, nowMs: number): boolean {
    const before = this.versionOf(policy);
    if (before !== null && compareVersions(version, before) < 0) return false;
    const { epoch, version: number } = version;
    this.#put(policy, { version: { epoch, version: number }, setAtMs: nowMs, rules });
    this.end(nowMs);
    return true;
  }

  #put(policy: string, set: RuleSet): void {
    const rules = set.rules.map((rule) =>
      // Equal lists are one list, so that a meter recognises its own limits.
      rule.kind === "limits" ? { ...rule, limits: internedLimits(rule.limits) } : rule,
    );
    this.#sets.set(policy, { ...set, rules });
    this.#firstEndMs = Math.min(this.#firstEndMs, firstEndMs(rules));
  }

  /** Removes the rules that have ended. */
  end(nowMs: number): void {
    if (nowMs < this.#firstEndMs) return;
    this.#firstEndMs = never;
    for (const [policy, set] of this.#sets) {
      const rules = rulesAt(set.rules, nowMs);
      this.#sets.set(policy, { ...set, rules });
      this.#firstEndMs = Math.min(this.#firstEndMs, firstEndMs(rules));
    }
  }

  /** When the rules may be deleted, at most 30 days ahead: a rule without expiry must be renewed until it is removed. */
  idleAtMs(nowMs: number): number {
    let idleAtMs = 0;
    for (const set of this.#sets.values()) idleAtMs = Math.max(idleAtMs, keptUntilMs(set, nowMs));
    return idleAtMs;
  }

  /** The same as `idleAtMs` while a rule is live; otherwise 0, even if the version of a set is still kept. */
  liveUntilMs(nowMs: number): number {
    return [...this.#sets.values()].some(({ rules }) => rulesAt(rules, nowMs).length > 0) ? this.idleAtMs(nowMs) : 0;
  }

  get sizeBytes(): number {
    let sizeBytes = 0;
    for (const { rules } of this.#sets.values()) sizeBytes += bytesOfSet + rules.length * bytesOfRule;
    return sizeBytes;
  }

  /** A list of `[policy, epoch, version, set at, rules]`. */
  snapshot(nowMs: number): unknown[] {
    return [...this.#sets]
      .filter(([, set]) => keptUntilMs(set, nowMs) > nowMs)
      .map(([policy, { version, setAtMs, rules }]) => [policy, version.epoch, version.version, setAtMs, rules]);
  }

  /** Reads a `snapshot`. Leaves out sets that this version did not write. */
  static revived(stored: readonly (readonly unknown[])[]): KeyRuleSets {
    const revived = new KeyRuleSets();
    for (const [policy, epoch, version, setAtMs, rules] of stored) {
      if (typeof policy !== "string" || !isCount(epoch) || !isCount(version)) continue;
      if (!isCount(setAtMs) || !Array.isArray(rules) || !rules.every(isKeyRule)) continue;
      revived.#put(policy, { version: { epoch, version }, setAtMs, rules });
    }
    return revived;
  }
}

const keptUntilMs = ({ rules, setAtMs }: RuleSet, nowMs: number): number =>
  rules.reduce(
    (untilMs, { expiresAtMs = never }) => Math.max(untilMs, Math.min(expiresAtMs, nowMs + longestKeptMs)),
    // The clock may have been ahead when the rules were set.
    Math.min(setAtMs, nowMs) + versionKeptMs,
  );

function isKeyRule(value: unknown): value is KeyRule {
  if (!isRecord(value) || typeof value["id"] !== "string") return false;
  const { kind, expiresAtMs, limits } = value as { [field: string]: unknown };
  if (expiresAtMs !== undefined && !isCount(expiresAtMs)) return false;
  return kind === "allow" || kind === "block" || (kind === "limits" && isLimits(limits));
}

export const isLimits = (value: unknown): value is readonly Limit[] =>
  Array.isArray(value) &&
  value.every(
    (limit) =>
      isRecord(limit) &&
      typeof limit["strategy"] === "string" &&
      strategies.has(limit["strategy"]) &&
      isCount(limit["limit"]) &&
      isCount(limit["windowMs"]),
  );
