/** Operators who change rules at random, and know only what the answers state. */
import type { Plane } from "../../../src/control/object/plane.ts";
import type { Actor, Changed, Rule, RuleInput } from "../../../src/control/protocol.ts";
import { objectId, objectLocation } from "../../../src/limiter/protocol.ts";
import { parseLimits } from "../../../src/strategies/index.ts";
import type { Random } from "../../random.ts";
import type { World } from "../world.ts";
import { type DeployedPolicy, keyTexts, partitionKeyOf, pick } from "./configuration.ts";
import type { SimulatedPlane } from "./plane.ts";
import type { RuleContent, RuleLedger, RuleTrack } from "./rule-ledger.ts";
import type { Wire } from "./wire.ts";

interface OperatorParts {
  readonly world: World;
  readonly random: Random;
  readonly plane: SimulatedPlane;
  readonly ledger: RuleLedger;
  readonly wire: Wire;
  /** The deployment that the operator sees in the console. */
  readonly deployment: readonly DeployedPolicy[];
  /** Called with the expiry of each key rule that is made. */
  readonly onExpiry: (key: string, policy: string, atMs: number) => void;
  /** Called with the expiry of each policy rule that is made. */
  readonly onPolicyExpiry: (policy: string, atMs: number) => void;
}

const actor: Actor = { name: "ada", via: "token" };

export class Operator {
  readonly #parts: OperatorParts;
  #limits = 100;
  #creations = 0;
  readonly #underWay = new Set<number>();
  /** The epoch before which no rules may be made, after the storage was replaced; null if rules may be made. */
  waitsForEpoch: number | null = null;
  /** Whether policy rules may expire. */
  policyRulesExpire = true;

  constructor(parts: OperatorParts) {
    this.#parts = parts;
  }

  /** Makes a random change. */
  async act(): Promise<void> {
    const { random } = this.#parts;
    if (this.#isWaiting()) return;
    const drawn = random();
    const change =
      drawn < 0.35
        ? this.createKeyRule()
        : drawn < 0.65
          ? this.changePolicy()
          : drawn < 0.78
            ? this.#replace()
            : drawn < 0.92
              ? this.#delete()
              : this.#rollback();
    // If a change gets no answer, it may have taken effect or not.
    await change.catch(() => undefined);
  }

  /** Reads the list of rules. Rules that the list shows as applied are confirmed. */
  read(): void {
    const { plane, ledger } = this.#parts;
    if (!plane.isUp || this.#isWaiting()) return;
    for (const rule of plane.control.rules({ limit: 500 }).items) {
      const track = ledger.tracks.get(rule.id);
      if (track === undefined || track.status !== "unsure" || rule.state !== "applied") continue;
      if (!this.#underWay.has(track.lastChange)) {
        ledger.confirm(rule.id, track.lastChange, contentOf(rule));
      }
    }
  }

  #isWaiting(): boolean {
    const { plane } = this.#parts;
    if (this.waitsForEpoch === null) return false;
    if (!plane.isUp || plane.control.rulesMetrics().epochMs === this.waitsForEpoch) return true;
    this.waitsForEpoch = null;
    return false;
  }

  async createKeyRule(): Promise<void> {
    const { plane, random, wire } = this.#parts;
    const input = this.#keyRuleInput();
    const key = `create-${++this.#creations}`;
    const change = this.#begin([]);
    const create = () =>
      wire.send(() =>
        plane.call((control) => {
          const known = plane.createdIds.length;
          const answer = control.createRule({
            input: structuredClone(input),
            actor,
            idempotency: { key, requestHash: key },
          });
          this.#track(control, plane.createdIds.slice(known), input, change);
          return answer;
        }),
      );
    try {
      // After a lost answer, an operator sends the same request again.
      const answer = await create().catch(() => (random() < 0.5 ? create() : null));
      if (answer !== null) this.#confirm(answer, change);
    } finally {
      this.#underWay.delete(change);
    }
  }

  async changePolicy(): Promise<void> {
    const { plane, random, wire } = this.#parts;
    const { facts } = pick(random, this.#parts.deployment);
    const rule = this.#policyRule();
    const isRemoval = random() < 0.25;
    const expiresAtMs =
      this.policyRulesExpire && random() < 0.4 ? this.#parts.world.nowMs + 500 + Math.floor(random() * 15_000) : null;
    if (expiresAtMs !== null) this.#parts.onPolicyExpiry(facts.name, expiresAtMs);
    const input = {
      ...common,
      scope: "policy",
      policy: facts.name,
      key: null,
      rule,
      objects: null,
    };
    await wire.send(() =>
      plane.call((control) => {
        const { epoch, version } = control.policyState(facts.name);
        const part = { ...input, expiresAtMs } as RuleInput;
        const parts = [{ kind: rule.kind, rule: isRemoval ? null : part }];
        control.changePolicy({ policy: facts.name, parts, epoch, version, actor, note: null });
      }),
    );
  }

  async #replace(): Promise<void> {
    const track = this.#anyTrack();
    if (track === null) return;
    const { plane, wire, ledger } = this.#parts;
    const change = this.#begin([track]);
    const input = { ...this.#keyRuleInput(), key: track.key, policy: track.policy } as RuleInput;
    const objects = this.#objectsOf(track.policy);
    try {
      const answer = await wire.send(() =>
        plane.call((control) => {
          ledger.touch([track], change);
          const revision = control.rule(track.id)?.revision ?? 0;
          return control.replaceRule({
            id: track.id,
            revision,
            input: { ...input, objects },
            actor,
          });
        }),
      );
      this.#confirm(answer, change);
    } finally {
      this.#underWay.delete(change);
    }
  }

  async #delete(): Promise<void> {
    const track = this.#anyTrack();
    if (track === null) return;
    const { plane, wire, ledger } = this.#parts;
    const change = this.#begin([track]);
    try {
      const answer = await wire.send(() =>
        plane.call((control) => {
          ledger.touch([track], change);
          const revision = control.rule(track.id)?.revision ?? 0;
          return control.deleteRule({ id: track.id, revision, actor, note: null });
        }),
      );
      const isDone = answer.kind === "done" && answer.isPending !== true;
      if (isDone) ledger.confirm(track.id, change, null);
    } finally {
      this.#underWay.delete(change);
    }
  }

  async #rollback(): Promise<void> {
    const { plane, wire, random, ledger } = this.#parts;
    const change = this.#begin(ledger.tracks.values());
    const share = random();
    try {
      const answer = await wire.send(() =>
        plane.call((control) => {
          ledger.touch(ledger.tracks.values(), change);
          const seq = control.audit({ limit: 1 }).items[0]?.seq ?? 0;
          return control.rollback({ toSeq: Math.floor(share * (seq + 1)), actor, note: null });
        }),
      );
      if (answer.kind !== "done" || answer.isPending === true) return;
      for (const rule of answer.value) this.#confirm({ kind: "done", value: rule }, change);
    } finally {
      this.#underWay.delete(change);
    }
  }

  #begin(affected: Iterable<RuleTrack>): number {
    const change = this.#parts.ledger.begin(affected);
    this.#underWay.add(change);
    return change;
  }

  #confirm(answer: Changed<Rule>, change: number): void {
    if (answer.kind !== "done" || answer.isPending === true) return;
    const rule = answer.value;
    if (rule.scope === "key") this.#parts.ledger.confirm(rule.id, change, contentOf(rule));
  }

  #track(control: Plane, suffixes: readonly string[], input: RuleInput, change: number): void {
    const { ledger } = this.#parts;
    for (const rule of control.rules({ limit: 500 }).items) {
      if (!suffixes.some((suffix) => rule.id.endsWith(suffix)) || rule.key === null) continue;
      const { policy, key } = rule;
      const object = objectId(objectLocation(this.#objectsOf(policy), key));
      ledger.add({ id: rule.id, policy, key, object, content: contentOf(rule) }, change);
      if (input.expiresAtMs !== null) this.#parts.onExpiry(key, policy, input.expiresAtMs);
    }
  }

  #anyTrack(): RuleTrack | null {
    const { ledger, random } = this.#parts;
    const tracks = [...ledger.tracks.values()].filter(({ status }) => status !== "gone");
    return tracks.length === 0 ? null : pick(random, tracks);
  }

  #objectsOf(name: string) {
    const found = this.#parts.deployment.find(({ facts }) => facts.name === name);
    if (found === undefined) throw new Error("the policy was deployed");
    return found.policy.objects;
  }

  #keyRuleInput(): RuleInput {
    const { random, world } = this.#parts;
    const { facts } = pick(random, this.#parts.deployment);
    const kind = pick(random, ["limits", "limits", "allow", "block"] as const);
    // Each rule has a different limit, which identifies the rule.
    const limits = parseLimits(`${++this.#limits}/hour`, {
      policy: facts.name,
      strategy: "sliding-log",
    });
    const expiresAtMs = random() < 0.5 ? null : world.nowMs + 1_000 + Math.floor(random() * 12_000);
    return {
      ...common,
      scope: "key",
      policy: facts.name,
      key: partitionKeyOf(pick(random, keyTexts)),
      rule: kind === "limits" ? { kind, limits } : { kind },
      objects: this.#objectsOf(facts.name),
      expiresAtMs,
    };
  }

  #policyRule() {
    const { random } = this.#parts;
    const key = pick(random, keyTexts);
    const limits = `${++this.#limits}/hour`;
    const drawn = random();
    if (drawn < 0.25) {
      return { kind: "mode", mode: pick(random, ["enforce", "dry-run", "off"] as const) } as const;
    }
    if (drawn < 0.6) return { kind: "limits", limits, strategy: "sliding-log" } as const;
    if (drawn < 0.75) return { kind: "overrides", overrides: [{ key, limits }] } as const;
    return { kind: drawn < 0.88 ? "allow" : "deny", entries: [key] } as const;
  }
}

const common = { sealedKey: null, written: null, expiresAtMs: null, note: null };

const contentOf = ({ rule, expiresAtMs }: Rule): RuleContent => ({
  kind: rule.kind as RuleContent["kind"],
  limit: rule.kind === "limits" ? ((rule.limits as { limit: number }[])[0]?.limit ?? null) : null,
  expiresAtMs,
});
