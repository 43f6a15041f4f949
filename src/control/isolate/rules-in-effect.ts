/**
 * The policies that are in effect in an isolate: those of the configuration under the newest runtime rules that the
 * isolate has received. The rules of a policy are never replaced by older ones.
 */
import { applyRules, type ReadRules, readRules } from "../../policy/read-runtime-rules.ts";
import { compareVersions, type PolicyRules } from "../../policy/runtime-rules.ts";
import type { Policy } from "../../policy/policy.ts";
import type { StaleRules } from "../../limiter/protocol.ts";
import { report } from "../../observability/events.ts";
import type { BeatCall, BeatReply } from "../protocol.ts";

/** The rules of a policy before the isolate has received any. */
const unknownRules: PolicyRules = { epoch: 0, version: 0, text: "[]" };

interface RuledState {
  readonly base: Policy;
  read: ReadRules;
  policy: Policy;
  /** When `policy` must be derived again. */
  changesAtMs: number;
  /** The rules of the current version that the configuration refuses; each is reported once. */
  refused: ReadonlySet<string | null>;
}

export class RulesInEffect {
  readonly #states: ReadonlyMap<string, RuledState>;
  #policies: readonly Policy[];
  #changesAtMs = Number.POSITIVE_INFINITY;

  /** @param configured the policies of the configuration */
  constructor(configured: readonly Policy[]) {
    this.#states = new Map(configured.map((base) => [base.name, stateOf(base)]));
    this.#policies = this.#inOrder();
  }

  /** The policies in effect, in the order of the configuration. The same list until it changes. */
  policies(nowMs: number): readonly Policy[] {
    if (nowMs >= this.#changesAtMs) this.#refresh(nowMs);
    return this.#policies;
  }

  /** The newest epoch and the versions within it, as a beat reports them. */
  get known(): Pick<BeatCall, "epoch" | "versions"> {
    const all = [...this.#states.values()].map(({ base, read }) => ({ base, ...read.rules }));
    const epoch = all.reduce((newest, each) => Math.max(newest, each.epoch), 0);
    // A version of an older epoch means nothing in the newest one, in which the policy may have no rules.
    const current = all.filter((each) => each.epoch === epoch && each.version > 0);
    const versions = Object.fromEntries(current.map(({ base, version }) => [base.name, version]));
    return { epoch, versions };
  }

  /** Adopts newer rules. Ignores older ones, and those of policies that the configuration does not have. */
  adopt(rules: readonly StaleRules[]): void {
    for (const { policy, epoch, version, text } of rules) {
      const state = this.#states.get(policy);
      if (state !== undefined) this.#replace(state, { epoch, version, text });
    }
  }

  /** Adopts the rules of a reply. In a later epoch, policies that the reply does not name have no rules. */
  adoptReply({ epoch, changed }: Pick<BeatReply, "epoch" | "changed">): void {
    this.adopt(changed);
    for (const state of this.#states.values()) {
      if (state.read.rules.epoch < epoch) this.#replace(state, { ...unknownRules, epoch });
    }
  }

  #replace(state: RuledState, rules: PolicyRules): void {
    if (compareVersions(rules, state.read.rules) <= 0) return;
    state.read = readRules(state.base, rules);
    state.changesAtMs = Number.NEGATIVE_INFINITY;
    this.#changesAtMs = Number.NEGATIVE_INFINITY;
    const { refused } = state.read;
    for (const { id, reason } of refused) {
      if (state.refused.has(id)) continue;
      report({ event: "rule-refused", policy: state.base.name, rule: id, reason });
    }
    state.refused = new Set(refused.map(({ id }) => id));
  }

  #refresh(nowMs: number): void {
    const states = [...this.#states.values()];
    for (const state of states) {
      if (nowMs < state.changesAtMs) continue;
      const { policy, changesAtMs } = applyRules(state.base, state.read, nowMs);
      Object.assign(state, { policy, changesAtMs });
    }
    this.#policies = this.#inOrder();
    this.#changesAtMs = Math.min(...states.map(({ changesAtMs }) => changesAtMs));
  }

  #inOrder(): readonly Policy[] {
    return [...this.#states.values()].map(({ policy }) => policy);
  }
}

const stateOf = (base: Policy): RuledState => ({
  base,
  read: { rules: unknownRules, parts: [], refused: [] },
  policy: { ...base, rules: unknownRules },
  changesAtMs: Number.POSITIVE_INFINITY,
  refused: new Set(),
});
