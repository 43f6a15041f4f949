/** The key that an operator names: by its parts, as in `/check`, or by its id. */
import * as v from "valibot";
import { mostKeyParts } from "../policy/key.ts";
import type { Policy } from "../policy/policy.ts";
import { unmatchedText } from "../policy/key-text.ts";
import { callerKeyValues, type KeyValue, missingParts } from "../policy/key-values.ts";
import { labelOf } from "../control/isolate/key-label.ts";
import { keyText } from "../http/check/input.ts";
import { invalidKey } from "../http/check/operations.ts";
import { type AdminContext, isKeyId } from "./context.ts";
import { CallRefused, fieldsRefused } from "./refusal.ts";

const acceptedKey =
  "a well-formed text of 1 to 1024 UTF-8 bytes, or a list of such texts, with null for a missing part";
const acceptedTenant = "the name of a tenant, of up to 128 characters";

export const keyNameEntries = {
  key: v.optional(
    v.union(
      [
        v.pipe(
          keyText,
          v.transform((text) => [text]),
        ),
        v.pipe(
          v.array(v.nullable(keyText), acceptedKey),
          v.minLength(1, acceptedKey),
          v.maxLength(mostKeyParts, `at most ${mostKeyParts} texts`),
        ),
      ],
      acceptedKey,
    ),
  ),
  id: v.optional(v.string("the id of a key, which explain returns")),
  tenant: v.optional(
    v.pipe(
      v.string(acceptedTenant),
      v.check((text) => text.trim() !== "" && text.isWellFormed(), acceptedTenant),
      v.maxLength(128, acceptedTenant),
    ),
  ),
};

export interface KeyName {
  readonly key?: readonly (string | null)[] | undefined;
  readonly id?: string | undefined;
  readonly tenant?: string | undefined;
}

/** A key of a policy. */
export interface NamedKey {
  /** The partition key. */
  readonly id: string;
  /** As operators read it; null when only the id is known. */
  readonly label: string | null;
}

/** @throws CallRefused when a key is named by its id and by its parts */
export function refuseSecondName({ key, id, tenant }: KeyName): void {
  if (id === undefined || (key === undefined && tenant === undefined)) return;
  const field = key === undefined ? "tenant" : "key";
  throw fieldsRefused([{ field, accepted: "no value together with id" }]);
}

/** @throws CallRefused when the name does not fit the policy's key */
export async function namedKey(
  { runtime }: Pick<AdminContext, "runtime">,
  policy: Policy,
  { key, id, tenant }: KeyName,
): Promise<NamedKey> {
  refuseSecondName({ key, id, tenant });
  if (id !== undefined) {
    if (!isKeyId(id)) throw new CallRefused({ kind: "unknown-key" });
    return { id, label: null };
  }
  const parts = policy.key;
  const values = keyValues(policy, key);
  const partitionKey = await runtime.partitions.partitionKey(parts, values, tenant ?? null);
  return { id: partitionKey, label: labelOf({ parts, values, tenant: tenant ?? null }) };
}

/**
 * Reads one value for each part of the policy's key.
 * @throws CallRefused when no request can have the key: a rule for it would have no effect
 */
function keyValues(policy: Policy, texts: KeyName["key"]): KeyValue[] {
  const { key: parts, onMissingKey } = policy;
  const errors = parts.flatMap((part, index) => {
    const text = texts?.[index] ?? null;
    const field = parts.length === 1 ? "key" : `key[${index}]`;
    const accepted = texts?.length === parts.length ? unmatchedText(part, policy, text) : null;
    return accepted === null ? [] : [{ field, accepted: `${accepted}; or the id of the key` }];
  });
  if (errors.length > 0) throw fieldsRefused(errors);
  const values = callerKeyValues(policy, texts);
  if (values === null) throw new CallRefused(invalidKey(policy));
  if (missingParts(parts, values).length > 0 && onMissingKey !== "shared") {
    const accepted = `a text for every part, because onMissingKey is "${onMissingKey}"`;
    throw fieldsRefused([{ field: "key", accepted }]);
  }
  return values;
}
