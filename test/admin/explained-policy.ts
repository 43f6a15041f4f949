/** A policy `login` in its own isolate, for tests that explain keys. The default key is `callerAddress`. */
import { vi } from "vitest";
import { parseConfig } from "../../src/policy/vars/config.ts";
import type { Policy } from "../../src/policy/policy.ts";
import type { PolicyRule, PolicyRules } from "../../src/policy/runtime-rules.ts";
import { policyWithRules } from "../../src/policy/read-runtime-rules.ts";
import { hmacWith, PartitionKeys } from "../../src/policy/partition-key.ts";
import { explainedKey, type ExplainInput, type KnownRules } from "../../src/admin/explain/explanation.ts";
import type { Explanation, StepName } from "../../src/admin/wire.ts";
import { isFailure } from "../../src/http/wire/problems.ts";
import type { KeyRule } from "../../src/limiter/protocol.ts";
import { startMs, TestIsolate } from "../fakes/isolate.ts";

export const callerAddress = "203.0.113.7";

const partitions = new PartitionKeys(hmacWith("the tests' secret"));

/** The id of the key of an address. */
export const idOf = async (address: string): Promise<string> => partitions.partitionKey([{ kind: "ip" }], [address]);

/** The id of the key of an address and of a header `x-user`. */
export const idOfUser = async (address: string, user: string): Promise<string> =>
  partitions.partitionKey([{ kind: "ip" }, { kind: "header", name: "x-user" }], [address, user]);

/** The expiry of a rule, as an offset from the start of the test. */
export const later = (ms: number) => ({ expiresAtMs: startMs + ms });

export class ExplainedPolicy {
  readonly isolate = new TestIsolate();
  /** The policy as it is in effect in the isolate. */
  policy: Policy;
  /** The rules of the control plane; null when it does not answer. */
  known: KnownRules | null = null;

  /** @param earlier the policies before it, within which it may be */
  constructor(fields: object = {}, rules: readonly PolicyRule[] = [], earlier: readonly object[] = []) {
    const policy = { name: "login", limits: "5/minute", strategy: "fixed-window", ...fields };
    const warnings = vi.spyOn(console, "warn").mockReturnValue(undefined);
    const read = parseConfig({ KEY_SECRET: "s", POLICIES: [...earlier, policy] }).policies.at(-1);
    warnings.mockRestore();
    if (read === undefined) throw new Error("expected a policy");
    const state = { epoch: 7, version: rules.length, text: JSON.stringify(rules) };
    this.policy = rules.length === 0 ? read : policyWithRules(read, state, startMs).policy;
  }

  /** Puts rules into effect in the isolate. */
  adopt(rules: PolicyRules): void {
    this.policy = policyWithRules(this.policy, rules, startMs).policy;
  }

  answer(input: Partial<ExplainInput> = {}) {
    const { isolate } = this;
    const policyNow = (): readonly Policy[] => [this.policy];
    const context = {
      runtime: {
        get policies() {
          return policyNow();
        },
        partitions,
        limiter: isolate.client,
        control: { adopt: ([newest]: readonly PolicyRules[]) => newest && this.adopt(newest) },
      },
      nowMs: isolate.clock.now(),
      knownRules: () => Promise.resolve(this.known),
      waitUntil: () => undefined,
    };
    const key = input.id === undefined ? [callerAddress] : undefined;
    return explainedKey(context, { policy: "login", key, ...input });
  }

  async explain(input: Partial<ExplainInput> = {}): Promise<Explanation> {
    const explained = await this.answer(input);
    if (isFailure(explained)) throw new Error(`refused: ${JSON.stringify(explained)}`);
    return explained;
  }

  async spend(cost: number): Promise<void> {
    const partitionKey = await idOf(callerAddress);
    await this.isolate.admit({ policy: this.policy, partitionKey, cost });
  }

  async setKeyRules(...rules: readonly KeyRule[]): Promise<void> {
    const id = await idOf(callerAddress);
    this.isolate.object(id).setRules(id, "login", rules, { epoch: 7, version: 3 });
  }
}

export const decidingStep = ({ steps }: Explanation): StepName[] =>
  steps.filter(({ decides }) => decides).map(({ step }) => step);

export const outcomeOf = ({ allowed, reason, retryAfterMs }: Explanation) => [allowed, reason, retryAfterMs];
