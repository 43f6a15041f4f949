/**
 * The key rules as their operator knows them from answers alone. A rule is confirmed once an answer says so. It is unsure while
 * a change of it is under way, after a change without an answer, and after the storage of the control plane was replaced.
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
  /** The object of the key under the newest deployment. */
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

  /** Begins a change of rules. Returns its number. */
  begin(affected: Iterable<RuleTrack>): number {
    this.#changes++;
    this.touch(affected, this.#changes);
    return this.#changes;
  }

  /** A change reaches the control plane, perhaps after one that was begun later. */
  touch(affected: Iterable<RuleTrack>, change: number): void {
    for (const track of affected) {
      track.status = "unsure";
      track.lastChange = change;
    }
  }

  add(track: Omit<RuleTrack, "status" | "lastChange">, change: number): void {
    this.tracks.set(track.id, { ...track, status: "unsure", lastChange: change });
  }

  /** An answer confirms what a change has made of a rule, unless another change has begun since. */
  confirm(id: string, change: number, content: RuleContent | null): void {
    const track = this.tracks.get(id);
    if (track?.lastChange !== change) return;
    if (content === null) track.status = "gone";
    else Object.assign(track, { status: "confirmed", content });
  }

  /** A push of a set that an object has accepted. */
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

  /** By the clock of the object and that of the control plane, which leaves expired rules out of its pushes. */
  #isLive(object: SimulatedObject, { expiresAtMs }: RuleContent): boolean {
    return expiresAtMs === null || Math.max(object.nowMs, this.#planeNowMs()) < expiresAtMs;
  }
}

/** Whether a rule comes before a tracked one, or is that one. */
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
