/** Objects that have key rules for the key `k` of the policy `p`. */
import type { Charge, CheckReply, KeyRule } from "../../src/limiter/protocol.ts";
import { parseLimits } from "../../src/strategies/index.ts";
import { call } from "./calls.ts";
import { startMs } from "./isolate.ts";
import { TestObject } from "./test-object.ts";

/** The expiry of a rule, as an offset from `startMs`. */
export const until = (offsetMs: number): { expiresAtMs: number } => ({
  expiresAtMs: startMs + offsetMs,
});

export const block: KeyRule = { id: "b", kind: "block" };
export const allow: KeyRule = { id: "a", kind: "allow" };
export const limits = (text: string, id = "l", strategy = "fixed-window"): KeyRule & { kind: "limits" } => ({
  id,
  kind: "limits",
  limits: parseLimits(text, { policy: "p", strategy }),
});

/** Sets the rules for the key `k` of the policy `p`. */
export function setRules(object: TestObject, version: number, ...rules: KeyRule[]): void {
  object.limiter.setRules("k", "p", rules, { epoch: 1, version });
}

export function ruled(...rules: KeyRule[]): TestObject {
  const object = new TestObject();
  setRules(object, 1, ...rules);
  return object;
}

export const check = (object: TestObject, ...charges: Charge[]): CheckReply => object.limiter.check(call(charges));

export const allowedOf = ({ decisions }: CheckReply): boolean[] => decisions.map(({ allowed }) => allowed);
