/** Policies and keys of a test's own, read from the configuration that would make them. */
import { type KeyPart, parseConfig, type Policy } from "../../src/config/index.ts";
import { attributesOf } from "../../src/http/attributes.ts";
import { matchingPolicies } from "../../src/policies/match.ts";
import type { RequestAttributes } from "../../src/policies/request-attributes.ts";

/** A key for tokens, so that keys may have claims. */
const secrets = { KEY_SECRET: "s", JWT_KEY: "a secret of at least thirty-two bytes" };

/** A policy with these fields, on top of a name and limits. */
export function policyOf(fields: Record<string, unknown>): Policy {
  const POLICIES = [{ name: "a", limits: "1/s", ...fields }];
  const [policy] = parseConfig({ ...secrets, POLICIES }).policies;
  if (policy === undefined) throw new Error("no policy");
  return policy;
}

export const partsOf = (key: string | string[]): readonly KeyPart[] => policyOf({ key }).key;

interface Asked {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly cf?: Record<string, unknown>;
}

/** What is seen of a request for a target, which is a path, or a whole URL. */
export function visitTo(
  target: string,
  { method = "GET", headers = {}, cf }: Asked = {},
): RequestAttributes {
  // A base would take two slashes at the beginning for a host.
  const url = new URL(target.startsWith("https:") ? target : `https://h.example${target}`);
  const request = Object.assign(new Request("https://h.example", { headers }), { cf });
  // A Request would put some methods in upper case, and take no URL with credentials.
  return { ...attributesOf(request), url, method };
}

/** Whether a request meets a policy of this match; `target` is a path, or a whole URL. */
export function meets(match: Record<string, unknown>, target: string, method = "GET"): boolean {
  return matchingPolicies([policyOf({ match })], visitTo(target, { method })).length === 1;
}
