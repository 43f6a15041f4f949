/**
 * The keys that a request names with several values for a part. The policy charges none of them, because the part counts
 * as missing, but a ban or a rule of any of them denies the request: a second value must not evade it.
 */
import type { Policy } from "../config/index.ts";
import type { KeyValue } from "./key.ts";
import { isRepeatable } from "./part-texts.ts";
import { planOf } from "./plan.ts";
import type { Claims, RequestAttributes } from "./request-attributes.ts";

/** Each of these keys costs a call of its object. A request that names more is denied. */
export const mostNamedKeys = 16;

/** Whether keys of the policy can have bans or runtime rules. */
export const hasKeyStates = ({ ban, rules }: Policy): boolean => ban !== null || rules !== null;

/**
 * @param charged the values of the request's key, with null for the parts that are missing
 * @returns null when there are more than `mostNamedKeys`
 */
export function namedKeys(
  policy: Policy,
  charged: readonly KeyValue[],
  request: RequestAttributes,
  claims: Claims,
): readonly (readonly KeyValue[])[] | null {
  const plan = planOf(policy);
  const isShared = policy.onMissingKey === "shared";
  const choices = policy.key.map((part, index): readonly KeyValue[] => {
    const value = charged[index] ?? null;
    if (value !== null || part.kind === "global") return [value];
    const texts = isRepeatable(part)
      ? [...new Set(plan.textsOf(part)(request, claims))].filter((text) => text !== "")
      : [];
    // Only with "shared" is a key without the part charged, and can have rules.
    return isShared ? [...texts, null] : texts;
  });
  const count = choices.reduce((product, { length }) => product * length, 1);
  if (count - (isShared ? 1 : 0) > mostNamedKeys) return null;
  const keys = choices.reduce<readonly (readonly KeyValue[])[]>(
    (starts, values) => starts.flatMap((start) => values.map((value) => [...start, value])),
    [[]],
  );
  return isShared ? keys.slice(0, -1) : keys;
}
