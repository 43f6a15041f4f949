/**
 * The plain keys that this tab knows, because the operator typed or revealed them. They stay in memory: keys may be personal
 * data, so that they are in no URL and in no storage.
 */
import { signal } from "@preact/signals";
import type { Explanation } from "../api/answers.ts";
import { call } from "../api/client.ts";
import type { KeyReference } from "../api/rules.ts";
import { shortId } from "../parts/text.ts";
import { session } from "../shell/session.ts";
import { labelOf, partsOfLabel, type PlainKey } from "./key-text.ts";

interface KnownKey {
  /** As people read it. */
  readonly label: string;
  readonly plain: PlainKey | null;
}

const known = signal<ReadonlyMap<string, KnownKey>>(new Map());

// The next operator of the tab may have no right to see them.
session.subscribe(({ kind }) => {
  if (kind === "signed-out") known.value = new Map();
});

const placeOf = (policy: string, id: string): string => `${policy} ${id}`;

const remember = (policy: string, id: string, key: KnownKey): void => {
  known.value = new Map(known.value).set(placeOf(policy, id), key);
};

export const knownKey = (policy: string, id: string): KnownKey | null => known.value.get(placeOf(policy, id)) ?? null;

/** The plain key if it is known, or the beginning of the id. */
export const keyName = (policy: string, id: string): string => knownKey(policy, id)?.label ?? shortId(id);

/** Explains a key that the operator typed, and remembers it. */
export async function findKey(policy: string, parts: readonly string[], plain: PlainKey): Promise<string> {
  const { value } = await explain({ policy, ...plain });
  remember(policy, value.id, { label: labelOf(parts, plain), plain });
  return value.id;
}

const explain = (body: object, abort?: AbortSignal): ReturnType<typeof call<Explanation>> =>
  call<Explanation>("POST", "keys/explain", {
    body,
    ...(abort !== undefined && { signal: abort }),
  });

/** Explains a key by its parts if they are known, else by its id. */
export async function explainKey(policy: string, id: string, abort: AbortSignal): Promise<Explanation> {
  const plain = knownKey(policy, id)?.plain ?? null;
  const { value } = await explain(plain === null ? { policy, id } : { policy, ...plain }, abort);
  return value;
}

/** The name of a key in calls that make rules. With the plain key, the rule keeps it sealed, so that it can be revealed. */
export function referenceTo(policy: string, id: string): KeyReference {
  const { key, tenant } = knownKey(policy, id)?.plain ?? {};
  const isComplete = key !== undefined && key.every((part) => part !== null);
  return isComplete ? { policy, key, ...(tenant !== undefined && { tenant }) } : { policy, id };
}

/**
 * Shows the plain key of an id. The audit log records it.
 * @throws ApiProblem with status 404 when no plain key is stored
 */
export async function revealKey(policy: string, parts: readonly string[], id: string): Promise<void> {
  const { value } = await call<{ readonly key: string }>("POST", "keys/reveal", {
    body: { policy, id },
  });
  const key = partsOfLabel(value.key, parts);
  // A value may look like the name of the next part, so the parts are right only if they give the same id.
  const isSame = key !== null && (await idOf(policy, key)) === id;
  remember(policy, id, { label: value.key, plain: isSame ? { key } : null });
}

async function idOf(policy: string, key: readonly (string | null)[]): Promise<string | null> {
  try {
    return (await explain({ policy, key })).value.id;
  } catch {
    return null;
  }
}
