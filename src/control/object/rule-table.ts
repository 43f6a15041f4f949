/** The rows of rules and rule sets. A set has all rules of one policy and key, or those of the policy itself. */
import type { ObjectSettings } from "../../policy/placement.ts";
import type { Page, RefusedChange, Rule, RuleCreation, RuleQuery } from "../protocol.ts";
import { type Sql, type SqlValue, pageOf, pageSize, numberOf } from "./storage.ts";

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

/** Partition keys are never empty. */
const keyColumn = (key: string | null): string => key ?? "";
const isLiveNow = "(expires_at IS NULL OR expires_at > ?)";

export const isRuleLive = ({ expiresAtMs }: Pick<Rule, "expiresAtMs">, nowMs: number): boolean =>
  expiresAtMs === null || expiresAtMs > nowMs;

/** Thrown to refuse a change and roll its transaction back. */
export class Refused extends Error {
  override readonly name = "Refused";
  readonly refusal: RefusedChange;

  constructor(refusal: RefusedChange) {
    super(refusal.kind);
    this.refusal = refusal;
  }
}

export class RuleTable {
  readonly #sql: Sql;
  /** No rule expires before this instant; null when that is unknown. */
  #nextExpiryMs: number | null = null;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  liveCount(nowMs: number): number {
    return numberOf(this.#sql, `SELECT COUNT(*) FROM rules WHERE ${isLiveNow}`, nowMs) ?? 0;
  }

  /** For each policy and kind, the number of live rules, and how many of them have a pending push. Reads all rules. */
  counts(nowMs: number) {
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
    this.#nextExpiryMs ??= numberOf(this.#sql, "SELECT MIN(expires_at) FROM rules") ?? Infinity;
    return this.#nextExpiryMs === Infinity ? null : this.#nextExpiryMs;
  }

  get(id: string): Rule | null {
    return this.#select("id = ?", id)[0] ?? null;
  }

  /** Null also for a rule that has expired, and is not removed yet. */
  live(id: string, nowMs: number): Rule | null {
    return this.#select(`id = ? AND ${isLiveNow}`, id, nowMs)[0] ?? null;
  }

  /** @throws Refused when there is no such rule, or it has another revision */
  expected(id: string, revision: number, nowMs: number): Rule {
    const rule = this.live(id, nowMs);
    if (rule === null) throw new Refused({ kind: "unknown" });
    if (rule.revision !== revision) throw new Refused({ kind: "outdated", revision: String(rule.revision) });
    return rule;
  }

  /** The rules of a policy as isolates receive them. */
  textOf(policy: string): string {
    const rules = this.ofSet({ policy, key: null });
    return JSON.stringify(rules.flatMap((rule) => (rule.scope === "policy" ? enforcedRule(rule) : [])));
  }

  /** The rules of a set, the newest first. */
  ofSet({ policy, key }: SetName): Rule[] {
    return this.#select("key = ? AND policy = ? ORDER BY id DESC", keyColumn(key), policy);
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
    const values = set.map(([, value]) => value ?? null);
    const rules = this.#select(`${where} ORDER BY id DESC LIMIT ?`, nowMs, ...values, size + 1);
    return pageOf(rules, size, ({ id }) => id);
  }

  /** Rules that have expired, at most `most`. */
  expired(nowMs: number, most: number): Rule[] {
    return this.#select("expires_at <= ? LIMIT ?", nowMs, most);
  }

  #select(where: string, ...bindings: readonly SqlValue[]): Rule[] {
    return this.#sql
      .exec<{ body: string; appliedAtMs: number | null }>(
        `SELECT body, applied_at AS appliedAtMs FROM rules WHERE ${where}`,
        ...bindings,
      )
      .toArray()
      .map(({ body, appliedAtMs }) => {
        const rule: Rule = JSON.parse(body);
        return { ...rule, appliedAtMs };
      });
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
    if (expiresAtMs !== null && expiresAtMs < (this.#nextExpiryMs ?? -Infinity)) this.#nextExpiryMs = expiresAtMs;
  }

  delete(id: string): void {
    this.#sql.exec("DELETE FROM rules WHERE id = ?", id);
  }

  /** Makes `nextExpiryMs` read the next expiry again, after rules were removed. */
  forgetNextExpiry(): void {
    this.#nextExpiryMs = null;
  }

  set({ policy, key }: SetName): SetRow | null {
    const [row] = this.#sql
      .exec<{ version: number; confirmed: number; placements: string }>(
        "SELECT version, confirmed, placements FROM rule_sets WHERE key = ? AND policy = ?",
        keyColumn(key),
        policy,
      )
      .toArray();
    return row === undefined ? null : { ...row, placements: JSON.parse(row.placements) };
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

  /** The sets of keys that follow `after`, in the order of their keys. */
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

/** How many places of one key are remembered. The latest are kept. */
const mostPlacements = 8;

/** The known and the added places, without duplicates. */
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

/** A rule as isolates, or the object of its key, enforce it. */
export const enforcedRule = <Enforced extends object>({
  rule,
  id,
  expiresAtMs,
}: Pick<Rule, "id" | "expiresAtMs"> & { readonly rule: Enforced }) => ({
  ...rule,
  id,
  ...(expiresAtMs !== null && { expiresAtMs }),
});

const keptMs = 24 * 3_600_000;

export class IdempotencyKeys {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /**
   * The result of `first`. When the request is repeated, the result of `again`, which gets the first result.
   * @param stored what is stored of the first result, and what `again` gets. Default: all of it.
   * @throws Refused when a different request used the same idempotency key
   */
  once<Result>(
    { actor: { via, name }, idempotency }: Pick<RuleCreation, "actor" | "idempotency">,
    nowMs: number,
    first: () => Result,
    again: (result: Result) => Result,
    stored: (result: Result) => Result = (result) => result,
  ): Result {
    if (idempotency === null) return first();
    // Actors choose their keys independently.
    const key = JSON.stringify([via, name, idempotency.key]);
    const [known] = this.#sql
      .exec<{ request_hash: string; rule: string }>(
        "SELECT request_hash, rule FROM idempotency WHERE key = ? AND at > ?",
        key,
        nowMs - keptMs,
      )
      .toArray();
    if (known !== undefined) {
      if (known.request_hash !== idempotency.requestHash) throw new Refused({ kind: "key-reused" });
      return again(JSON.parse(known.rule));
    }
    const result = first();
    const row = [key, nowMs, idempotency.requestHash, JSON.stringify(stored(result))];
    this.#sql.exec("INSERT OR REPLACE INTO idempotency (key, at, request_hash, rule) VALUES (?, ?, ?, ?)", ...row);
    return result;
  }

  sweep(nowMs: number): void {
    this.#sql.exec("DELETE FROM idempotency WHERE at <= ?", nowMs - keptMs);
  }
}
