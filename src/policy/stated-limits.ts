/** Limits that the Worker's code states for one request, in place of a policy's own, such as those of a customer in a database. */
import { type ConfigProblem, ConfigProblems } from "../validation/problems.ts";
import type { Policy } from "./policy.ts";
import { readStatedLimits } from "./read-runtime-rules.ts";
import { BoundedMap } from "./caches.ts";

/**
 * The stated limits are invalid. The same limits always have the same list of problems, so that they can be reported
 * once.
 */
export class StatedLimitsInvalid extends ConfigProblems {
  readonly policy: string;

  constructor(policy: string, problems: readonly ConfigProblem[]) {
    super(problems);
    this.policy = policy;
  }
}

/** How many different limits of one policy an isolate keeps compiled. */
const mostKept = 256;
/** Longer texts are compiled each time. */
const longestKept = 2_048;

type Read = ReturnType<typeof readStatedLimits>;

/**
 * The compiled limits by policy in effect. A change of runtime rules makes a new policy object, and so drops the
 * entries.
 */
const kept = new WeakMap<Policy, BoundedMap<Read>>();

/**
 * The policy with these limits. Equal limits give the same policy, because derived values are cached by policy object.
 * The counter of a key does not depend on the number of units, so it continues when the limits change, as with
 * overrides.
 * @param policies all policies of the Worker: a limit must not have the name of another policy
 * @throws StatedLimitsInvalid
 */
export function policyWithLimits(policy: Policy, limits: unknown, policies: readonly Policy[]): Policy {
  const text = textOf(limits);
  const known = kept.get(policy) ?? new BoundedMap<Read>(mostKept);
  kept.set(policy, known);
  const read = (text === null ? undefined : known.get(text)) ?? readStatedLimits(policy, limits, policies);
  // Sets a known entry again, so that the entries unused for longest are dropped first.
  if (text !== null) known.set(text, read);
  if ("name" in read) return read;
  throw new StatedLimitsInvalid(policy.name, read);
}

/**
 * A text that identifies the limits: equal texts mean equal limits. Null for values that JSON cannot represent, and for
 * long texts.
 */
function textOf(limits: unknown): string | null {
  let isPlain = true;
  const plain = (_: string, value: unknown): unknown => {
    isPlain &&= typeof value === "number" ? Number.isFinite(value) : isOfJson.has(typeof value);
    return value;
  };
  try {
    const text = JSON.stringify(limits, plain);
    return isPlain && text.length <= longestKept ? text : null;
  } catch {
    return null;
  }
}

/** The types of values that JSON can represent. `undefined` is among them, because JSON leaves out undefined fields. */
const isOfJson: ReadonlySet<string> = new Set(["string", "boolean", "object", "undefined"]);
