/**
 * The keys that a request names by several values for a part. The policy charges none of them, because the part counts
 * as missing. But a ban or a `block` rule of any of them denies the request, so that a client cannot evade it by adding
 * a second value.
 */
import type { Policy } from "../config/index.ts";
import type { KeyValue } from "./key.ts";
import { isRepeatable } from "./part-texts.ts";
import { planOf } from "./plan.ts";
import type { Claims, RequestAttributes } from "./request-attributes.ts";

/** Each of these keys costs a call to its object, so a request that names more is denied. */
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
    // Only "shared" charges a key without the part, so only then can such a key have rules.
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
