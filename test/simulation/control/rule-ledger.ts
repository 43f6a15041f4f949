/**
 * The key rules as their operator knows them from answers alone. A rule is confirmed once an answer says so. It is
 * unsure while a change to it is in flight, after a change without an answer, and after the storage of the control
 * plane was replaced.
 */
import type { KeyRule } from "../../../src/limiter/protocol.ts";
import type { Checks } from "./checks.ts";
import type { SimulatedObject } from "./key-objects.ts";

export interface RuleContent {
  readonly kind: KeyRule["kind"];
  readonly limit: number | null;
  readonly expiresAtMs: number | null;
}

export interface RuleTrack {
  readonly id: string;
  readonly policy: string;
  readonly key: string;
  /** The object that has the key in the newest deployment. */
  readonly object: string;
  status: "unsure" | "confirmed" | "gone";
  content: RuleContent;
  /** The last change that may have affected the rule. */
  lastChange: number;
}

interface KeyName {
  readonly key: string;
  readonly policy: string;
}

const strength = { limits: 1, allow: 2, block: 3 } as const;

export class RuleLedger {
  readonly tracks = new Map<string, RuleTrack>();
  readonly #checks: Checks;
  readonly #planeNowMs: () => number;
  #changes = 0;

  constructor(checks: Checks, planeNowMs: () => number) {
    this.#checks = checks;
    this.#planeNowMs = planeNowMs;
  }

  /** Begins a change of rules. Returns the number of the change. */
  begin(affected: Iterable<RuleTrack>): number {
    this.#changes++;
    this.touch(affected, this.#changes);
    return this.#changes;
  }

  /** Records that a change reaches the control plane, perhaps after a change that was begun later. */
  touch(affected: Iterable<RuleTrack>, change: number): void {
    for (const track of affected) {
      track.status = "unsure";
      track.lastChange = change;
    }
  }

  add(track: Omit<RuleTrack, "status" | "lastChange">, change: number): void {
    this.tracks.set(track.id, { ...track, status: "unsure", lastChange: change });
  }

  /** Records the result of a change that an answer confirms, unless another change has begun since. */
  confirm(id: string, change: number, content: RuleContent | null): void {
    const track = this.tracks.get(id);
    if (track?.lastChange !== change) return;
    if (content === null) track.status = "gone";
    else Object.assign(track, { status: "confirmed", content });
  }

  /** Records that an object has accepted a push of a set of rules. */
  checkPush(object: SimulatedObject, { key, policy, rules }: KeyName & { rules: readonly KeyRule[] }) {
    for (const track of this.#tracksOf(object, { key, policy })) {
      if (track.status === "unsure" || !this.#isLive(object, track.content)) continue;
      const pushed = rules.find(({ id }) => id === track.id);
      this.#checks.check(
        "key rules: a push contains each confirmed rule, and none that was removed",
        track.status === "gone" ? pushed === undefined : isSame(pushed, track.content),
        () => `${describe(track)}: pushed ${JSON.stringify(rules)}`,
      );
    }
  }

  checkDecision(
    object: SimulatedObject,
    { key, policy, actual, isBanned }: KeyName & { actual: KeyRule | null; isBanned: boolean },
  ): void {
    for (const track of this.#tracksOf(object, { key, policy })) {
      if (track.status === "unsure" || !this.#isLive(object, track.content)) continue;
      if (isBanned && track.content.kind !== "limits") continue;
      const holds = track.status === "gone" ? actual?.id !== track.id : actual !== null && isAsStrong(actual, track);
      this.#checks.check(
        "key rules: a decision obeys each rule that was confirmed to the operator",
        holds,
        () => `${describe(track)}: ${JSON.stringify(actual)} decided at ${object.nowMs}`,
      );
    }
  }

  #tracksOf(object: SimulatedObject, { key, policy }: KeyName): RuleTrack[] {
    return [...this.tracks.values()].filter(
      (track) => track.key === key && track.policy === policy && track.object === object.id,
    );
  }

  /**
   * Whether a rule is live by the clocks of both the object and the control plane, which omits expired rules from
   * pushes.
   */
  #isLive(object: SimulatedObject, { expiresAtMs }: RuleContent): boolean {
    return expiresAtMs === null || Math.max(object.nowMs, this.#planeNowMs()) < expiresAtMs;
  }
}

/** Whether a rule takes precedence over a tracked one, or equals it. */
function isAsStrong(rule: KeyRule, { id, content }: RuleTrack): boolean {
  if (rule.id === id) return isSame(rule, content);
  const own = strength[rule.kind];
  const other = strength[content.kind];
  return own > other || (own === other && rule.id > id);
}

const isSame = (rule: KeyRule | undefined, { kind, limit, expiresAtMs }: RuleContent): boolean =>
  rule?.kind === kind &&
  (rule.expiresAtMs ?? null) === expiresAtMs &&
  (rule.kind === "limits" ? rule.limits[0]?.limit : null) === limit;

const describe = ({ id, policy, key, status, content }: RuleTrack): string =>
  `${policy} ${key} ${id} is ${status} as ${JSON.stringify(content)}`;
