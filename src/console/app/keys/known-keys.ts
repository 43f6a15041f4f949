/**
 * The plain keys that this tab knows, because the operator typed or revealed them. They stay in memory: keys may be personal
 * data, so that they are in no URL and in no storage.
 */
import { computed, signal } from "@preact/signals";
import type { Explanation, PolicyView, RevealedKeys } from "../../../admin/wire.ts";
import { call, refusal } from "../api/client.ts";
import type { KeyReference } from "../api/rules.ts";
import { now } from "../clock.ts";
import { shortId } from "../parts/text.ts";
import { may, operator, session } from "../shell/session.ts";

interface KnownKey {
  /** The key as shown to people. */
  readonly label: string;
  /** Null if the label does not show all parts. Absent until the page of the key is opened, which checks it. */
  readonly plain?: PlainKey | null;
}

const known = signal<ReadonlyMap<string, KnownKey>>(new Map());
/** The oldest are forgotten: the view "Live" may show any number of keys. */
const mostKnown = 2_000;

function forgetKeys(): void {
  known.value = new Map();
  wanted.clear();
  askedAtMs.clear();
  unrecorded.value = new Set();
}

// The next operator of the tab may have no right to see them.
session.subscribe(({ kind }) => {
  if (kind === "signed-out") forgetKeys();
});

const placeOf = (policy: string, id: string): string => `${policy} ${id}`;

function remember(policy: string, keys: readonly (KnownKey & { readonly id: string })[]): void {
  const all = [...known.peek(), ...keys.map(({ id, ...key }) => [placeOf(policy, id), key] as const)];
  known.value = new Map(all.slice(-mostKnown));
}

/** The keys that the control plane has no plain key for, by policy and id. */
const unrecorded = signal<ReadonlySet<string>>(new Set());

export const isUnrecorded = (policy: string, id: string): boolean => unrecorded.value.has(placeOf(policy, id));

/** Why a key is shown by its id although plain keys are shown. */
export const unrecordedReason =
  'Plain keys are recorded only for keys of the top lists and of denials (for 24 hours, with REVEAL = "admins"), and for keys whose rules were made with the plain key.';

export const knownKey = (policy: string, id: string): KnownKey | null => known.value.get(placeOf(policy, id)) ?? null;

const storageKey = "headgate-plain-keys";
/** The choice of this page; null before the operator chooses. */
const chosen = signal<boolean | null>(null);

export const isLocalHost = (host: string): boolean => /^(?:(?:.+\.)?localhost|127\.0\.0\.1|\[::1\])$/.test(host);

function initialChoice(): boolean {
  const stored = sessionStorage.getItem(storageKey);
  return stored === null ? isLocalHost(location.hostname) : stored === "on";
}

/** Whether the page reveals each key that it shows. The audit log records them. */
export const showsPlainKeys = computed(() => may("reveal") && (chosen.value ?? initialChoice()));

/** Keeps the choice in this tab. */
export function showPlainKeys(isOn: boolean): void {
  sessionStorage.setItem(storageKey, isOn ? "on" : "off");
  chosen.value = isOn;
  if (!isOn) forgetKeys();
}

/** The plain key if it is known, or the beginning of the id until it is revealed. */
export function keyName(policy: string, id: string): string {
  const label = knownKey(policy, id)?.label;
  if (label !== undefined) return label;
  if (showsPlainKeys.value) want(policy, id);
  return shortId(id);
}

/** The ids to reveal, by policy. */
const wanted = new Map<string, Set<string>>();
/** When a key was asked for last, by policy and id, while it is not known. */
const askedAtMs = new Map<string, number>();
/** The plain key of a denial may be stored some seconds after the denial. */
const askedAgainAfterMs = 10_000;
/** One call for what a view shows at once. */
const gatheredMs = 50;
/** The most that the API reveals at once. */
const mostRevealed = 100;

function want(policy: string, id: string): void {
  const place = placeOf(policy, id);
  const nowMs = now();
  if (nowMs - (askedAtMs.get(place) ?? -Infinity) < askedAgainAfterMs) return;
  if (askedAtMs.size >= mostKnown) askedAtMs.clear();
  askedAtMs.set(place, nowMs);
  if (wanted.size === 0) setTimeout(revealWanted, gatheredMs);
  wanted.set(policy, (wanted.get(policy) ?? new Set()).add(id));
}

function revealWanted(): void {
  const all = [...wanted];
  wanted.clear();
  // Calls with refused credentials count against the address.
  if (refusal.value !== null) return;
  for (const [policy, set] of all) {
    const ids = [...set];
    for (let from = 0; from < ids.length; from += mostRevealed) {
      void revealAll(policy, ids.slice(from, from + mostRevealed));
    }
  }
}

async function revealAll(policy: string, ids: readonly string[]): Promise<void> {
  const asker = operator.value;
  try {
    const { keys } = await call<RevealedKeys>("POST", "keys/reveal", { body: { policy, ids } });
    if (operator.value !== asker || !showsPlainKeys.value) return;
    const found = keys.filter(({ key }) => key !== null);
    for (const { id } of found) askedAtMs.delete(placeOf(policy, id));
    noteRevealed(policy, keys);
  } catch {
    // The page shows the ids, and asks again when it is rendered later.
  }
}

function noteRevealed(policy: string, keys: RevealedKeys["keys"]): void {
  const found = keys.flatMap(({ id, key: label }) => (label === null ? [] : [{ id, label }]));
  const missing = keys.filter(({ key }) => key === null).map(({ id }) => placeOf(policy, id));
  const foundPlaces = new Set(found.map(({ id }) => placeOf(policy, id)));
  const all = [...unrecorded.peek(), ...missing].filter((place) => !foundPlaces.has(place));
  unrecorded.value = new Set(all.slice(-mostKnown));
  if (found.length > 0) remember(policy, found);
}

/** Explains a key that the operator typed, and remembers it. */
export async function findKey(policy: string, parts: readonly string[], plain: PlainKey): Promise<string> {
  const { id, key: label = labelOf(parts, plain) } = await explain({ policy, ...plain });
  remember(policy, [{ id, label, plain }]);
  return id;
}

export const explain = (body: object, abort?: AbortSignal): Promise<Explanation> =>
  call<Explanation>("POST", "keys/explain", { body, signal: abort });

/** Explains a key by its parts if they are known, else by its id. */
export async function explainKey(
  { name, key: parts }: PolicyView,
  id: string,
  abort: AbortSignal,
): Promise<Explanation> {
  const own = knownKey(name, id);
  const plain = own === null || own.plain !== undefined ? own?.plain : await plainKeyOf(name, parts, id, own.label);
  return explain({ policy: name, ...(plain ?? { id }) }, abort);
}

/** The parts in a label; null if the label does not show them all. */
async function plainKeyOf(
  policy: string,
  parts: readonly string[],
  id: string,
  label: string,
): Promise<PlainKey | null> {
  const key = partsOfLabel(label, parts);
  // A value may contain text that looks like the next part, so the parts are correct only if they give the same id.
  const plain = key !== null && (await idOf(policy, key)) === id ? { key } : null;
  if (knownKey(policy, id) !== null) remember(policy, [{ id, label, plain }]);
  return plain;
}

/**
 * How calls that make rules name a key. If they send the plain key, the rule stores it sealed, and operators can reveal
 * it later.
 */
export function referenceTo(policy: string, id: string): KeyReference {
  const { key, tenant } = knownKey(policy, id)?.plain ?? {};
  const isComplete = key !== undefined && key.every((part) => part !== null);
  return isComplete ? { policy, key, ...(tenant !== undefined && { tenant }) } : { policy, id };
}

/** Shows the plain key of an id. The audit log records it. Without a recorded plain key, `isUnrecorded` is true. */
export async function revealKey(policy: string, id: string): Promise<void> {
  const { keys } = await call<RevealedKeys>("POST", "keys/reveal", { body: { policy, ids: [id] } });
  noteRevealed(policy, keys);
}

const idOf = (policy: string, key: readonly (string | null)[]): Promise<string | null> =>
  explain({ policy, key }).then(
    ({ id }) => id,
    () => null,
  );

/** A key by its parts, as calls to the admin API name it. */
interface PlainKey {
  /** One text for each part; null for a part that requests lack. Absent for a policy with one key for all requests. */
  readonly key?: readonly (string | null)[];
  readonly tenant?: string;
  /** The attributes that entries of lists and overrides are compared with. */
  readonly attributes?: Readonly<Record<string, string>>;
}

/** Such as `ip=192.0.2.1, header:x-user=a`. */
export function labelOf(parts: readonly string[], { key = [], tenant }: PlainKey): string {
  const named = parts.map((part, index) => {
    if (part === "global") return "global";
    const value = key[index] ?? null;
    return value === null ? `${part} missing` : `${part}=${value}`;
  });
  return (tenant === undefined ? named : [`tenant=${tenant}`, ...named]).join(", ");
}

/** The parts in a label such as `ip=192.0.2.1, header:x-user=a`; null when it does not show them all. */
export function partsOfLabel(label: string, parts: readonly string[]): readonly (string | null)[] | null {
  const key: (string | null)[] = [];
  let rest = label;
  for (const [index, part] of parts.entries()) {
    const next = parts[index + 1];
    const end = next === undefined ? rest.length : rest.indexOf(`, ${next}`);
    const text = rest.slice(0, end);
    if (end === -1 || text.includes("…")) return null;
    if (text === part || text === `${part} missing`) key.push(null);
    else if (text.startsWith(`${part}=`)) key.push(text.slice(part.length + 1));
    else return null;
    rest = rest.slice(end + 2);
  }
  return key;
}

/** The fields in which an operator types a key, or its id. */
export interface TypedKey {
  /** A text for each part; empty for a missing part. */
  readonly key: readonly string[];
  readonly id: string;
  readonly tenant: string;
  readonly attributes: string;
}

/** @throws Error when the fields name no key, or a key in two ways */
export function soughtKey(typed: TypedKey, parts: readonly string[]): { readonly id: string } | PlainKey {
  const id = typed.id.trim();
  const tenant = typed.tenant.trim();
  const named = parts.filter((part) => part !== "global");
  const key = parts.map((_, index) => typed.key[index]?.trim() || null);
  const hasKey = key.some((text) => text !== null);
  if (id !== "" && (hasKey || tenant !== "")) {
    throw new Error("Expected the key or its id, got both.");
  }
  if (id !== "") return { id };
  if (named.length > 0 && !hasKey) {
    throw new Error(`Expected a value of ${named.join(" or ")}, or the id of the key.`);
  }
  return { ...(named.length > 0 && { key }), ...(tenant !== "" && { tenant }), ...attributesIn(typed.attributes) };
}

function attributesIn(text: string): Pick<PlainKey, "attributes"> {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  const pairs = lines.map((line): [string, string] => {
    const [, name, value] = /^\s*([^=]+?)\s*=\s*(.*?)\s*$/.exec(line) ?? [];
    if (name === undefined || value === undefined) {
      throw new Error(`expected an attribute such as country=DE, got ${line}`);
    }
    return [name, value];
  });
  return pairs.length === 0 ? {} : { attributes: Object.fromEntries(pairs) };
}
