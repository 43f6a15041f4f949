/**
 * The keys that a request names by several values for a part, or by a path that origins read in different ways. The
 * policy charges none of them. But a ban or a `block` rule of any of them denies the request, so that a client cannot
 * evade it by adding a second value.
 */
import type { KeyPart, Policy } from "./vars/index.ts";
import { type KeyValue, missingParts } from "./apply-key.ts";
import { isRepeatable } from "./part-texts.ts";
import { planOf } from "./plan.ts";
import type { Claims, RequestAttributes } from "./request-attributes.ts";

/** Each of these keys costs a call to its object, so a request that names more is denied. */
const mostNamedKeys = 16;

/** The same, of keys with claims of a verified token, whose lists are not chosen by the client. */
const mostVerifiedKeys = 64;

/** Whether keys of the policy can have bans or runtime rules. */
export const hasKeyStates = ({ ban, rules }: Policy): boolean => ban !== null || rules !== null;

/** Whether the part is a path that names several keys. */
export const isAmbiguousPath = ({ kind }: KeyPart, { target }: RequestAttributes): boolean =>
  kind === "path" && target.path.canonical === null;

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
  const { key, onMissingKey } = policy;
  const plan = planOf(policy);
  // Only "shared" charges a key without the part, so only then can such a key have rules.
  const isShared = onMissingKey === "shared";
  const choices = key.map((part, index): readonly KeyValue[] => {
    const value = charged[index] ?? null;
    if (part.kind === "global") return [null];
    const isRead = value === null ? isRepeatable(part) : isAmbiguousPath(part, request);
    const texts = new Set(isRead ? plan.textsOf(part)(request, claims) : []);
    const others = [...texts].filter((text) => text !== "" && text !== value);
    return value !== null || isShared ? [...others, value] : others;
  });
  const isCharged = isShared || missingParts(key, charged).length === 0;
  const most = isVerified(key, choices) ? mostVerifiedKeys : mostNamedKeys;
  const count = choices.reduce((product, { length }) => product * length, 1);
  if (count - (isCharged ? 1 : 0) > most) return null;
  const keys = choices.reduce<readonly (readonly KeyValue[])[]>(
    (starts, values) => starts.flatMap((start) => values.map((value) => [...start, value])),
    [[]],
  );
  // The charged key is the last one.
  return isCharged ? keys.slice(0, -1) : keys;
}

/** Whether only claims have several values. */
const isVerified = (key: readonly KeyPart[], choices: readonly (readonly KeyValue[])[]): boolean =>
  key.every(({ kind }, index) => kind === "jwt" || (choices[index]?.length ?? 0) < 2);
