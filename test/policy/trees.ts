/** Builds policies within policies. */
import type { Policy } from "../../src/policy/policy.ts";
import { configOf } from "./parsed.ts";

export type Fields = Readonly<Record<string, unknown>>;

export const secrets = { KEY_SECRET: "the tests' secret", JWT_KEY: "a secret of at least thirty-two bytes" };

export const org: Fields = { name: "org", key: "jwt:org", limits: "1000/minute" };
export const team: Fields = { name: "team", within: "org", key: "jwt:team", limits: "100/minute" };
export const user: Fields = { name: "user", within: "team", key: "jwt:sub", limits: "10/minute" };

export const policiesOf = (...POLICIES: readonly Fields[]): readonly Policy[] =>
  configOf({ ...secrets, POLICIES }).policies;

/** The policy of the last of these fields, and all policies. */
export function treeOf(...written: readonly Fields[]): { readonly last: Policy; readonly policies: readonly Policy[] } {
  const policies = policiesOf(...written);
  const last = policies.at(-1);
  if (last === undefined) throw new Error("no policy");
  return { last, policies };
}
