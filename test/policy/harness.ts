/** Builds policies, keys and requests for tests from the configuration that defines them. */
import type { KeyPart } from "../../src/policy/key.ts";
import { parseConfig } from "../../src/policy/vars/config.ts";
import type { Policy } from "../../src/policy/policy.ts";
import { matchingPolicies } from "../../src/policy/compiled-policy.ts";
import { type RequestAttributes, RequestTarget } from "../../src/policy/request.ts";
import { attributesOf } from "../../src/http/attributes.ts";

/** These variables include a verification key, so that keys may have claims. */
const secrets = { KEY_SECRET: "s", JWT_KEY: "a secret of at least thirty-two bytes" };

/** A policy with these fields, a name and limits. */
export function policyOf(fields: Record<string, unknown>): Policy {
  const POLICIES = [{ name: "a", limits: "1/s", ...fields }];
  const [policy] = parseConfig({ ...secrets, POLICIES }).policies;
  if (policy === undefined) throw new Error("no policy");
  return policy;
}

export const partsOf = (key: string | string[]): readonly KeyPart[] => policyOf({ key }).key;

interface RequestOptions {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly cf?: Record<string, unknown>;
}

/** The attributes of a request for a path or URL. */
export function requestTo(
  target: string,
  { method = "GET", headers = {}, cf }: RequestOptions = {},
): RequestAttributes {
  // A base parameter of URL would take two leading slashes for the start of a host.
  const url = new URL(target.startsWith("https:") ? target : `https://h.example${target}`);
  const request = Object.assign(new Request("https://h.example", { headers }), { cf });
  // A Request would change some methods to upper case, and reject URLs with credentials.
  return { ...attributesOf(request), target: RequestTarget.of(url), method };
}

/** Whether a policy with this `match` applies to a request for a path or URL. */
export function meets(match: Record<string, unknown>, target: string, method = "GET"): boolean {
  return matchingPolicies([policyOf({ match })], requestTo(target, { method })).length === 1;
}
