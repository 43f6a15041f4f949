/** Plain keys as operators read them: the parts with their values, of which secrets show only their last characters. */
import { type KeyPart, partName, type PlainKey } from "../../policy/key.ts";

/** Such a label has at most 1,024 characters when it is sealed, the most that the control plane stores. */
const longestLabel = 240;

/** Such as `ip=203.0.113.7, header:x-user=a`. */
export function labelOf({ parts, values, tenant = null }: PlainKey): string {
  const named = parts.map((part, index) => {
    const name = partName(part);
    if (part.kind === "global") return name;
    const value = values[index] ?? null;
    if (value === null) return `${name} missing`;
    return `${name}=${isSecret(part) ? lastCharacters(value) : value}`;
  });
  const label = (tenant === null ? named : [`tenant=${tenant}`, ...named]).join(", ");
  return label.length <= longestLabel ? label : `${label.slice(0, longestLabel - 1)}…`;
}

/** Longer than most tokens. */
const longestKept = 1_024;

/** Whether a key is too long to be kept in memory, since callers choose the values. */
export function isTooLong({ values }: PlainKey): boolean {
  let length = 0;
  for (const value of values) length += value?.length ?? 0;
  return length > longestKept;
}

/** Header fields and query parameters whose usual values grant access. */
const secretName =
  /auth|token|secret|passw|credential|session|signature|cookie|jwt|(?:^|[-_.])(?:key|sig|sid|pin|otp)$|(?:api|access|private)[-_.]?key/i;

/** Whether the values of a part may be secrets. Every cookie may be a session. */
function isSecret(part: KeyPart): boolean {
  if (part.kind === "cookie") return true;
  return (part.kind === "header" || part.kind === "query") && secretName.test(part.name);
}

const shownCharacters = 4;
/** Four characters would reveal too much of a shorter secret. */
const shortestShown = 12;

const lastCharacters = (secret: string): string =>
  secret.length < shortestShown ? "…" : `…${secret.slice(-shownCharacters)}`;
