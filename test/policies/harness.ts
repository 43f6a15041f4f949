/** Policies and keys of a test's own, read from the configuration that would make them. */
import { type KeyPart, parseConfig, type Policy } from "../../src/config/index.ts";
import { matchingPolicies } from "../../src/policies/match.ts";

/** A policy with these fields, on top of a name and limits. */
export function policyOf(fields: Record<string, unknown>): Policy {
  const POLICIES = [{ name: "a", limits: "1/s", ...fields }];
  const [policy] = parseConfig({ KEY_SECRET: "s", POLICIES }).policies;
  if (policy === undefined) throw new Error("no policy");
  return policy;
}

export const partsOf = (key: string | string[]): readonly KeyPart[] => policyOf({ key }).key;

/** Whether a request meets a policy of this match; `target` is a path, or a whole URL. */
export function meets(match: Record<string, unknown>, target: string, method = "GET"): boolean {
  // A base would take two slashes at the beginning for a host.
  const url = new URL(target.startsWith("https:") ? target : `https://h.example${target}`);
  return matchingPolicies([policyOf({ match })], method, url).length === 1;
}
