/** Objects that have newer policy rules than an isolate, and an isolate that adopts them. */
import type { Policy } from "../../src/policy/policy.ts";
import { decideByNewestRules, type RequestScope } from "../../src/limiter/isolate/newer-rules-retry.ts";
import type { CheckCall, StaleRules } from "../../src/limiter/protocol.ts";
import type { Call, TestIsolate } from "./isolate.ts";

export const rulesOf = (version: number): { epoch: number; version: number; text: string } => ({
  epoch: 1,
  version,
  text: JSON.stringify([{ id: `r${version}` }]),
});

/** The policy with the rules of this version. */
export const under = (policy: Policy, version: number): Policy => ({
  ...policy,
  rules: rulesOf(version),
});

const checksOf = (argument: unknown): CheckCall[] => {
  const { calls, charges } = argument as { calls?: CheckCall[]; charges?: unknown };
  return calls ?? (charges === undefined ? [] : [argument as CheckCall]);
};

/** Makes objects refuse charges of the policy whose rules are older than `version`. */
export function requireRules(
  isolate: TestIsolate,
  policy: string,
  version: number,
  isAffected: (call: Call) => boolean = () => true,
): void {
  const newer: StaleRules = { policy, ...rulesOf(version) };
  const staleReply = { decisions: [], spentAtMs: [], stale: [newer] };
  const isOlder = ({ charges }: CheckCall): boolean =>
    charges.some((charge) => charge.policy === policy && charge.rules !== undefined && charge.rules.version < version);
  isolate.instead = (call) => {
    const isDecision = ["check", "look", "reserve", "lease", "batch"].includes(call.name);
    const checks = isDecision && isAffected(call) ? checksOf(call.argument) : [];
    if (!checks.some(isOlder)) return undefined;
    if (call.name === "lease") return { ...staleReply, lentUnits: 0, settled: [] };
    if (call.name === "reserve") return { ...staleReply, isOpen: false, fullForMs: 0 };
    if (call.name !== "batch") return staleReply;
    const object = isolate.object(call.object);
    return checks.map((check) => (isOlder(check) ? staleReply : object.check(structuredClone(check))));
  };
}

/** The rules that an isolate has adopted, and the background work of its requests. */
export class RulesKeeper {
  version = 1;
  readonly adopted: StaleRules[] = [];
  readonly #work: Promise<unknown>[] = [];

  readonly waitUntil = (work: Promise<unknown>): void => void this.#work.push(work);

  adopt(rules: readonly StaleRules[]): void {
    this.adopted.push(...rules);
    for (const { version } of rules) this.version = Math.max(this.version, version);
  }

  async decide<Result>(decide: (scope: RequestScope) => Result | Promise<Result>): Promise<Result> {
    return decideByNewestRules(this, this.waitUntil, decide);
  }

  async afterAnswers(): Promise<void> {
    await Promise.all(this.#work.splice(0));
  }
}
