/** The rows of rules and rule sets. A set has all rules of one policy and key, or those of the policy itself. */
import type { KeyRule } from "../../limiter/protocol.ts";
import type { ObjectSettings } from "../../policy/placement.ts";
import type { PolicyRule } from "../../policy/runtime-rules.ts";
import type { Actor, Page, Rule, RuleCreation, RuleQuery } from "../protocol.ts";
import { type Sql, type SqlValue, pageOf, pageSize } from "./storage.ts";

export interface SetName {
  readonly policy: string;
  /** The partition key; null for the rules of the policy itself. */
  readonly key: string | null;
}

export interface SetRow {
  readonly version: number;
  /** The newest version that the key's object has confirmed; 0 for none. */
  readonly confirmed: number;
  /** Where the key's object is, was or was expected: each of these places may have rules. Empty for a policy's set. */
  readonly placements: readonly ObjectSettings[];
}

type RuleRow = { body: string; applied_at: number | null };
type StoredSet = {
  version: number;
  confirmed: number;
  placements: string;
};

/** Partition keys are never empty. */
const keyColumn = (key: string | null): string => key ?? "";
const ruleColumns = "body, applied_at";
const isLiveNow = "(expires_at IS NULL OR expires_at > ?)";

export const isRuleLive = ({ expiresAtMs }: Pick<Rule, "expiresAtMs">, nowMs: number): boolean =>
  expiresAtMs === null || expiresAtMs > nowMs;

export class RuleTable {
  readonly #sql: Sql;
  /** No rule expires before this instant; undefined when that is unknown. */
  #nextExpiryMs: number | undefined;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  liveCount(nowMs: number): number {
    const [row] = this.#sql
      .exec<{ rules: number }>(`SELECT COUNT(*) AS rules FROM rules WHERE ${isLiveNow}`, nowMs)
      .toArray();
    return row?.rules ?? 0;
  }

  /** The number of live rules of each policy and kind, and of those among them whose push is pending. Reads all rules. */
  counts(nowMs: number): { policy: string; kind: string; rules: number; pending: number }[] {
    return this.#sql
      .exec<{ policy: string; kind: string; rules: number; pending: number }>(
        `SELECT policy, kind, COUNT(*) AS rules, SUM(applied_at IS NULL) AS pending FROM rules
          WHERE ${isLiveNow} GROUP BY policy, kind`,
        nowMs,
      )
      .toArray();
  }

  /** When the first rule expires, or earlier; null when none does. */
  get nextExpiryMs(): number | null {
    if (this.#nextExpiryMs === undefined) {
      const [row] = this.#sql.exec<{ at: number | null }>("SELECT MIN(expires_at) AS at FROM rules").toArray();
      this.#nextExpiryMs = row?.at ?? Number.POSITIVE_INFINITY;
    }
    return this.#nextExpiryMs === Number.POSITIVE_INFINITY ? null : this.#nextExpiryMs;
  }

  get(id: string): Rule | null {
    const rows = this.#sql.exec<RuleRow>(`SELECT ${ruleColumns} FROM rules WHERE id = ?`, id).toArray();
    return rows.map(ruleOf)[0] ?? null;
  }

  /** The rules of a set, the newest first. */
  ofSet({ policy, key }: SetName): Rule[] {
    return this.#sql
      .exec<RuleRow>(
        `SELECT ${ruleColumns} FROM rules WHERE key = ? AND policy = ? ORDER BY id DESC`,
        keyColumn(key),
        policy,
      )
      .toArray()
      .map(ruleOf);
  }

  /** The live rules, the newest first. */
  page({ policy, kind, key, cursor, limit }: RuleQuery, nowMs: number): Page<Rule> {
    const filters: readonly (readonly [string, SqlValue | undefined])[] = [
      ["id < ?", cursor],
      ["policy = ?", policy],
      ["kind = ?", kind],
      ["key = ?", key],
    ];
    const set = filters.filter(([, value]) => value !== undefined);
    const where = [isLiveNow, ...set.map(([filter]) => filter)].join(" AND ");
    const size = pageSize(limit);
    const rows = this.#sql
      .exec<RuleRow>(
        `SELECT ${ruleColumns} FROM rules WHERE ${where} ORDER BY id DESC LIMIT ?`,
        nowMs,
        ...set.map(([, value]) => value ?? null),
        size + 1,
      )
      .toArray();
    return pageOf(rows.map(ruleOf), size, ({ id }) => id);
  }

  /** Rules that have expired, at most `most`. */
  expired(nowMs: number, most: number): Rule[] {
    return this.#sql
      .exec<RuleRow>(`SELECT ${ruleColumns} FROM rules WHERE expires_at <= ? LIMIT ?`, nowMs, most)
      .toArray()
      .map(ruleOf);
  }

  put(rule: Rule): void {
    const { appliedAtMs, state: _, ...body } = rule;
    const { id, policy, key, version, expiresAtMs } = body;
    this.#sql.exec(
      `INSERT OR REPLACE INTO rules (id, policy, key, kind, version, expires_at, applied_at, body)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
      id,
      policy,
      keyColumn(key),
      body.rule.kind,
      version,
      expiresAtMs,
      appliedAtMs,
      JSON.stringify(body),
    );
    const nextExpiryMs = this.#nextExpiryMs ?? Number.NEGATIVE_INFINITY;
    if (expiresAtMs !== null && expiresAtMs < nextExpiryMs) this.#nextExpiryMs = expiresAtMs;
  }

  delete(id: string): void {
    this.#sql.exec("DELETE FROM rules WHERE id = ?", id);
  }

  /** Makes `nextExpiryMs` read the next expiry again, after rules were removed. */
  forgetNextExpiry(): void {
    this.#nextExpiryMs = undefined;
  }

  set({ policy, key }: SetName): SetRow | null {
    const [row] = this.#sql
      .exec<StoredSet>(
        "SELECT version, confirmed, placements FROM rule_sets WHERE key = ? AND policy = ?",
        keyColumn(key),
        policy,
      )
      .toArray();
    if (row === undefined) return null;
    const placements: ObjectSettings[] = JSON.parse(row.placements);
    return { ...row, placements };
  }

  putSet({ policy, key }: SetName, { version, confirmed, placements }: SetRow): void {
    this.#sql.exec(
      `INSERT OR REPLACE INTO rule_sets (key, policy, version, confirmed, placements)
        VALUES (?, ?, ?, ?, ?)`,
      keyColumn(key),
      policy,
      version,
      confirmed,
      JSON.stringify(placements),
    );
  }

  /** Notes that a key's object has a version of the key's rules. A set that has become empty is then no longer needed. */
  confirm({ policy, key }: SetName, version: number, nowMs: number): void {
    const name = [keyColumn(key), policy] as const;
    this.#sql.exec(
      "UPDATE rules SET applied_at = ? WHERE key = ? AND policy = ? AND applied_at IS NULL AND version <= ?",
      nowMs,
      ...name,
      version,
    );
    this.#sql.exec(
      "UPDATE rule_sets SET confirmed = ? WHERE key = ? AND policy = ? AND confirmed < ?",
      version,
      ...name,
      version,
    );
    this.deleteIfEmpty({ policy, key });
  }

  /** Deletes the set of a key that has no rules, once its object has confirmed that. */
  deleteIfEmpty({ policy, key }: SetName): void {
    if (key === null) return;
    this.#sql.exec(
      `DELETE FROM rule_sets WHERE key = ?1 AND policy = ?2 AND confirmed >= version
        AND NOT EXISTS (SELECT 1 FROM rules WHERE key = ?1 AND policy = ?2)`,
      key,
      policy,
    );
  }

  /** Marks a set, or the sets of all keys, as not confirmed. */
  unconfirm(set: SetName | null): void {
    const filter = set === null ? "key > ''" : "key = ? AND policy = ?";
    const bindings = set === null ? [] : [keyColumn(set.key), set.policy];
    this.#sql.exec(`UPDATE rule_sets SET confirmed = 0 WHERE confirmed > 0 AND ${filter}`, ...bindings);
  }

  /** The sets of keys that their objects have not confirmed. */
  unconfirmedSets(): SetName[] {
    return this.#sql
      .exec<{ key: string; policy: string }>("SELECT key, policy FROM rule_sets WHERE key > '' AND confirmed < version")
      .toArray();
  }

  /** The sets of keys in their order, after one of them. */
  keySetsAfter(after: SetName | null, most: number): SetName[] {
    return this.#sql
      .exec<{ key: string; policy: string }>(
        "SELECT key, policy FROM rule_sets WHERE key > '' AND (key, policy) > (?, ?) ORDER BY key, policy LIMIT ?",
        keyColumn(after?.key ?? null),
        after?.policy ?? "",
        most,
      )
      .toArray();
  }

  /** The policies that have or had rules of their own, and the version of these rules. */
  policyVersions(): { readonly policy: string; readonly version: number }[] {
    return this.#sql
      .exec<{ policy: string; version: number }>("SELECT policy, version FROM rule_sets WHERE key = ''")
      .toArray();
  }
}

/** The most places of one key that are remembered, the latest. */
const mostPlacements = 8;

/** The places together, each once. */
export function allPlacements(
  known: readonly ObjectSettings[],
  added: readonly ObjectSettings[],
): readonly ObjectSettings[] {
  const all = [...known, ...added].map(({ shards, locationHint, jurisdiction }) => {
    const settings: ObjectSettings = { shards, locationHint, jurisdiction };
    return [JSON.stringify(settings), settings] as const;
  });
  return [...new Map(all).values()].slice(-mostPlacements);
}

function ruleOf({ body, applied_at: appliedAtMs }: RuleRow): Rule {
  const rule: Rule = JSON.parse(body);
  return { ...rule, appliedAtMs };
}

/** A key rule as its object enforces it. */
export const enforcedKeyRule = (each: Extract<Rule, { scope: "key" }>): KeyRule => ({
  ...each.rule,
  ...identity(each),
});

/** A policy rule as isolates enforce it. */
export const enforcedPolicyRule = (each: Extract<Rule, { scope: "policy" }>): PolicyRule => ({
  ...each.rule,
  ...identity(each),
});

const identity = ({ id, expiresAtMs }: Rule): Pick<KeyRule, "id" | "expiresAtMs"> => ({
  id,
  ...(expiresAtMs !== null && { expiresAtMs }),
});

const keptMs = 24 * 3_600_000;

type Idempotency = NonNullable<RuleCreation["idempotency"]>;

export class IdempotencyKeys<Result> {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** The result of the same request before; `key-reused` when another request had the key; null when none had. */
  find(actor: Actor, { key, requestHash }: Idempotency, nowMs: number): Result | "key-reused" | null {
    const [row] = this.#sql
      .exec<{ at: number; request_hash: string; rule: string }>(
        "SELECT at, request_hash, rule FROM idempotency WHERE key = ?",
        scoped(actor, key),
      )
      .toArray();
    if (row === undefined || row.at <= nowMs - keptMs) return null;
    const result: Result = JSON.parse(row.rule);
    return row.request_hash === requestHash ? result : "key-reused";
  }

  add(actor: Actor, { key, requestHash }: Idempotency, result: Result, nowMs: number): void {
    this.#sql.exec(
      "INSERT OR REPLACE INTO idempotency (key, at, request_hash, rule) VALUES (?, ?, ?, ?)",
      scoped(actor, key),
      nowMs,
      requestHash,
      JSON.stringify(result),
    );
  }

  sweep(nowMs: number): void {
    this.#sql.exec("DELETE FROM idempotency WHERE at <= ?", nowMs - keptMs);
  }
}

/** Actors choose their keys independently. */
const scoped = ({ via, name }: Actor, key: string): string => JSON.stringify([via, name, key]);
