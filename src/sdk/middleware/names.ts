/**
 * The names of limiters. A limiter without a name gets one when it is constructed, from its options and its place among the
 * others, so that the order of requests has no effect on it. A Worker constructs such limiters when it starts. Where modules
 * are loaded later, as in tests and in development, an app may be constructed again and gets the same names again.
 */
import { type ConfigProblem, ConfigProblems } from "../../validation/problems.ts";
import type { StatedPolicy } from "./read-options.ts";

/** Whether the Worker is starting. The platform then refuses random values; other runtimes never do. */
function isStarting(): boolean {
  try {
    crypto.randomUUID();
    return false;
  } catch {
    return true;
  }
}

/** Whether this module is part of a Worker's start. Tests and development servers load it later. */
const isLoadedAtStart = isStarting();

/** The policies that were constructed, by name. */
let constructed = new Map<string, StatedPolicy>();
/** Whether a limiter has handled a request since the last one was constructed. */
let isInUse = false;

/** The control plane knows all policies from the first request on, whichever route receives it. */
export const constructedPolicies = (): ReadonlyMap<string, StatedPolicy> => constructed;

/** Called when a limiter handles a request. */
export function noteUse(): void {
  isInUse = true;
}

/**
 * Gives a name to a policy without one, and refuses a name that another policy has.
 * @throws ConfigProblems
 */
export function withNames(policies: readonly StatedPolicy[]): readonly StatedPolicy[] {
  const isLate = isLoadedAtStart && !isStarting();
  const unnamed = policies.filter(({ isUnnamed }) => isUnnamed);
  if (isLate && unnamed.length > 0) throw new ConfigProblems(unnamed.map(constructedLate));
  if (isInUse && !isLoadedAtStart) constructed = new Map();
  isInUse = false;
  const named = policies.map((policy) => {
    if (!policy.isUnnamed) return policy;
    const name = freeName(policy.text);
    return { ...policy, name, written: { ...policy.written, name } };
  });
  const taken = named.filter((policy) => {
    const known = constructed.get(policy.name);
    return !policy.isUnnamed && known !== undefined && !isSame(policy, known);
  });
  if (taken.length > 0) throw new ConfigProblems(taken.map(nameTaken));
  // Names of late limiters may be unlimited in number.
  if (!isLate) for (const policy of named) constructed.set(policy.name, policy);
  return named;
}

/** Whether two policies with one name are the same one, constructed again, or share the name on purpose. */
export const isSame = (a: StatedPolicy, b: StatedPolicy): boolean => a.text === b.text && a.isUnnamed === b.isUnnamed;

const nameField = { field: "name" };

export function nameTaken({ name, isUnnamed, caller }: StatedPolicy): ConfigProblem {
  const problem = { ...nameField, variable: caller };
  return isUnnamed
    ? {
        ...problem,
        value: undefined,
        accepted: `a name such as name: "login", because another limiter without a name has handled requests as "${name}"`,
      }
    : {
        ...problem,
        value: name,
        accepted: `a name of its own such as name: "${name}-2", because another limiter of this Worker, with other options or without a name, already has this name`,
      };
}

const constructedLate = ({ caller }: StatedPolicy): ConfigProblem => ({
  ...nameField,
  variable: caller,
  value: undefined,
  accepted:
    'a name such as name: "login", because this limiter is constructed for a request and not when the Worker starts',
});

/** The first policy is `default`. Others are named by the hash of their options, and a number from the second equal one. */
function freeName(text: string): string {
  if (!constructed.has("default")) return "default";
  const base = `default-${hashOf(text)}`;
  let name = base;
  for (let number = 2; constructed.has(name); number++) name = `${base}-${number}`;
  return name;
}

/** FNV-1a, 32 bits. */
function hashOf(text: string): string {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index++) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  }
  return (hash >>> 0).toString(16).padStart(8, "0");
}
