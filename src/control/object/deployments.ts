/**
 * The deployments whose isolates have sent beats recently, with their policies: several run at once while a new one is
 * rolled out. They determine where the objects of keys are, and which rules are orphans.
 */
import type { ObjectSettings } from "../../policy/placement.ts";
import type { BeatCall, PolicyInfo, Rule } from "../protocol.ts";
import type { Sql } from "./storage.ts";

/** A deployment has ended when it has sent no beat for this time, unless it was the last one to send any. */
const recentMs = 600_000;
/** The time of a deployment's last beat is written at most this often, because each write costs. */
const recordedEveryMs = 300_000;
/** The most deployments that are stored. The one without a beat for longest is deleted. */
const mostDeployments = 16;

interface KnownDeployment {
  readonly policies: ReadonlyMap<string, PolicyInfo>;
  readonly secretId: string | null;
  seenAtMs: number;
  recordedAtMs: number;
}

type StoredDeployment = Pick<KnownDeployment, "secretId"> & {
  readonly policies: readonly PolicyInfo[];
};
type BeatSender = Pick<BeatCall, "deployment" | "policies" | "secretId">;

export class Deployments {
  readonly #sql: Sql;
  readonly #known = new Map<string, KnownDeployment>();
  /** Recent deployments when `hasChanged` was last called. */
  #recentIds: string;

  constructor(sql: Sql, nowMs: number) {
    this.#sql = sql;
    const rows = sql
      .exec<{ id: string; seen_at: number; body: string }>("SELECT id, seen_at, body FROM deployments")
      .toArray();
    for (const { id, seen_at: recordedAtMs, body } of rows) {
      const { policies, secretId }: StoredDeployment = JSON.parse(body);
      // Beats within `recordedEveryMs` of the last write are not written, so the last beat may have come that much
      // later.
      const seenAtMs = Math.min(nowMs, recordedAtMs + recordedEveryMs);
      this.#known.set(id, { policies: byName(policies), secretId, seenAtMs, recordedAtMs });
    }
    this.#recentIds = this.#idsOf(nowMs);
  }

  /**
   * Notes a beat.
   * @returns whether the policies of its deployment are unknown
   */
  see(sender: BeatSender, nowMs: number): boolean {
    const { policies } = sender;
    const id = idOfSender(sender);
    const known = this.#known.get(id);
    if (known === undefined && policies === undefined) return true;
    const seen = known ?? {
      policies: byName(policies ?? []),
      secretId: sender.secretId ?? null,
      seenAtMs: nowMs,
      recordedAtMs: Number.NEGATIVE_INFINITY,
    };
    seen.seenAtMs = nowMs;
    if (nowMs - seen.recordedAtMs >= recordedEveryMs) this.#record(id, seen, nowMs);
    return false;
  }

  /** The policies of a deployment; null if they are unknown. */
  policiesOf(sender: BeatSender): ReadonlyMap<string, PolicyInfo> | null {
    return this.#known.get(idOfSender(sender))?.policies ?? null;
  }

  /** Whether deployments have begun or ended since this was last called. */
  hasChanged(nowMs: number): boolean {
    const ids = this.#idsOf(nowMs);
    if (ids === this.#recentIds) return false;
    this.#recentIds = ids;
    return true;
  }

  /** Where recent deployments expect the objects of a policy. */
  placements(policy: string, nowMs: number): ObjectSettings[] {
    return this.#recent(nowMs).flatMap(([, { policies }]) => policies.get(policy)?.objects ?? []);
  }

  /**
   * The policies of recent deployments. If several have one of the same name, the deployment with the latest beat wins.
   */
  policies(nowMs: number): PolicyInfo[] {
    const recent = this.#recent(nowMs).toSorted(([, a], [, b]) => a.seenAtMs - b.seenAtMs);
    return [...new Map(recent.flatMap(([, { policies }]) => [...policies])).values()];
  }

  /** Whether no recent deployment applies the rule. */
  isOrphan({ policy, secretId }: Rule, nowMs: number): boolean {
    const recent = this.#recent(nowMs);
    const isApplied = recent.some(([, deployment]) => {
      const isSameSecret = secretId === undefined || [null, secretId].includes(deployment.secretId);
      return isSameSecret && deployment.policies.has(policy);
    });
    return recent.length > 0 && !isApplied;
  }

  #recent(nowMs: number): [string, KnownDeployment][] {
    const latestMs = Math.max(...[...this.#known.values()].map(({ seenAtMs }) => seenAtMs));
    const sinceMs = Math.min(nowMs - recentMs, latestMs);
    return [...this.#known].filter(([, { seenAtMs }]) => seenAtMs >= sinceMs);
  }

  #idsOf(nowMs: number): string {
    return JSON.stringify(
      this.#recent(nowMs)
        .map(([id]) => id)
        .toSorted(),
    );
  }

  #record(id: string, deployment: KnownDeployment, nowMs: number): void {
    const { policies, secretId } = deployment;
    const body: StoredDeployment = { policies: [...policies.values()], secretId };
    this.#sql.exec(
      "INSERT OR REPLACE INTO deployments (id, seen_at, body) VALUES (?, ?, ?)",
      id,
      nowMs,
      JSON.stringify(body),
    );
    deployment.recordedAtMs = nowMs;
    this.#known.set(id, deployment);
    if (this.#known.size > mostDeployments) this.#forgetOldest();
  }

  #forgetOldest(): void {
    const [oldest] = [...this.#known].toSorted(([, a], [, b]) => a.seenAtMs - b.seenAtMs);
    if (oldest === undefined) return;
    this.#sql.exec("DELETE FROM deployments WHERE id = ?", oldest[0]);
    this.#known.delete(oldest[0]);
  }
}

const idOfSender = ({ deployment, secretId }: BeatSender): string => JSON.stringify([deployment, secretId ?? null]);

const byName = (policies: readonly PolicyInfo[]): ReadonlyMap<string, PolicyInfo> =>
  new Map(policies.map((policy) => [policy.name, policy]));
