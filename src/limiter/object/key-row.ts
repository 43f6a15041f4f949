/**
 * The storage row `k <key>`, a JSON list. In this one, the policy `api` has counted requests, a reservation `r1` of cost 2 and
 * a slice `s1` of 10 units are open, and one isolate has synced:
 *
 *     [1,                                    version
 *      1799971261000, 1799971200000,         idle at (a sweep may then delete it), first written at
 *      0,                                    number of its rows `s <key> <number>`
 *      [["api", [2, 1799971201000, ["fixed-window 1m", 59000, "ofHAofBofG"]]]],    [policy, snapshot of its meter]
 *      [[[{"limit": 100, "windowMs": 60000, …}]], ["r1", 60000, 1799971261000, 0, ["api", 0, 2, 1799971201000]]],
 *      [[[{"limit": 100, "windowMs": 60000, …}]], ["s1", 10, 2000, ["api", 0, 1799971203000]]],
 *      [["<isolate>", 1, 1799971201000]],    last sync batch of each isolate, and when it came
 *      [["api", 1799970000000, 7, 1799971203000, [{"id": "r1", "kind": "block"}]]],    key rules, see runtime-key-rules.ts
 *      [["api", 1799970000000, 6, "[]"]],    policy rules of its charges
 *      [["api", "sliding-log 1m 500 500 fair 0", 1799971261000, 1799971201000, [2, 1799971201000, …]]]]    parts in limits
 *                                             of its parents, see shared-limits.ts
 *
 * Reservations and slices are `[lists of limits, …entries]`, see `writtenEntries`. In a tree, the flags of a reservation are a
 * list, `[flags, …others]`, of the other keys and their numbers of charges; a version without trees reads them as 0. Empty fields at the end are left out. A
 * version ignores fields at the end that it does not know, and drops them when it writes the row. If all meters are too
 * large for one row, the largest are `[policy, number]`, and the row `s <key> <number>` holds the snapshot.
 */
import type { PolicyRules } from "../../policy/runtime-rules.ts";
import { BoundedMap } from "../../policy/caches.ts";
import {
  attachSegments,
  detachSegments,
  internedLimits,
  isCount,
  type Limit,
  LimitsMeter,
} from "../../strategies/index.ts";
import { jsonOrNull } from "../../validation/json.ts";
import { KeyState, type StoredRows } from "./key-state.ts";
import {
  type ChildPart,
  type OpenEntry,
  type OpenPart,
  type OpenSlice,
  type Reservation,
  Reservations,
  Slices,
} from "./open-entries.ts";
import { isLimits, KeyRuleSets } from "./runtime-key-rules.ts";
import { SharedParts } from "./shared-limits.ts";

/** Every row begins with the version. A version reads only its own rows. */
export const rowVersion = 1;

/** A row of storage holds 2 MB including its name (Cloudflare, SQLite storage limits). */
export const mostRowBytes = 2_000_000 - 2_048;

/** Longer texts of policy rules are stored in a row of their own, which is written only when the text changes. */
const mostInlineCharacters = 1_000;

interface RowFields {
  readonly bornAtMs: number;
  readonly meters: readonly (readonly [policy: string, snapshot: unknown])[];
  /** The fields after the meters. */
  readonly rest: readonly unknown[];
}

/** Texts stored in separate rows: sealed segments of long logs, and snapshots that do not fit in the key's row. */
interface TextNumbers {
  /** The number of a text. A text that has none yet gets the next one. */
  readonly numberOf: (text: string) => number;
  /** How many different texts `numberOf` was called with. */
  readonly count: () => number;
}

export interface WrittenRow {
  readonly row: string;
  /** Policies whose snapshots are stored in separate rows. */
  readonly apart: readonly string[];
  readonly apartBytes: number;
  /** Policies whose snapshots are too large for any row, and are not stored. */
  readonly lost: readonly string[];
}

/** The rows of a key. Leaves out idle policies. */
export function rowsOf(
  keyState: KeyState,
  idleAtMs: number,
  nowMs: number,
): WrittenRow & { readonly stored: StoredRows } {
  const { bornAtMs, stored: before, reservations, slices, batches, rules, policyRules, parts } = keyState;
  const texts = new Map<string, number>();
  let nextNumber = before?.nextNumber ?? 0;
  const numberOf = (text: string): number => {
    const number = texts.get(text) ?? before?.texts.get(text) ?? nextNumber++;
    texts.set(text, number);
    return number;
  };
  const live = [...keyState.meters].filter(([, { meter }]) => meter.idleAtMs() > nowMs);
  const meters = live.map(([name, { meter }]) => [name, detachSegments(meter.snapshot(), numberOf)] as const);
  const storedRules = [...(policyRules ?? [])].filter(([policy]) => keyState.stores(policy, nowMs));
  const rest = [
    writtenEntries(reservations?.entries ?? new Map<string, Reservation>(), reservationForm),
    writtenEntries(slices?.entries ?? new Map<string, OpenSlice>(), sliceForm),
    [...(batches ?? [])].map(([isolate, { batch, atMs }]) => [isolate, batch, atMs]),
    rules?.snapshot(nowMs) ?? [],
    storedRules.map(([policy, { epoch, version, text }]) => {
      return [policy, epoch, version, text.length > mostInlineCharacters ? numberOf(text) : text];
    }),
    parts?.snapshot(nowMs, numberOf) ?? [],
  ];
  // Reservations and slices begin with their lists of limits, even if there are none.
  const last = rest.findLastIndex((field, index) => field.length > (index < 2 ? 1 : 0));
  const fields = { bornAtMs, meters, rest: rest.slice(0, last + 1) };
  const written = writtenRow(fields, idleAtMs, { numberOf, count: () => texts.size });
  return { ...written, stored: storedRows(texts, nextNumber) };
}

const noTexts: ReadonlyMap<string, number> = new Map();

/** Most keys have no such rows, and share one empty map. */
const storedRows = (texts: ReadonlyMap<string, number>, nextNumber: number): StoredRows => ({
  texts: texts.size === 0 ? noTexts : texts,
  nextNumber,
});

/**
 * Reads a key's row.
 * @param textOf returns a text stored in a separate row, by its number
 * @returns null for a row that this version did not write
 */
export function revivedKey(key: string, row: unknown, textOf: (number: number) => string | undefined): KeyState | null {
  const parsed = parsedRow(row);
  if (parsed === null) return null;
  const keyState = new KeyState(key, parsed.bornAtMs);
  const texts = new Map<string, number>();
  let nextNumber = 0;
  const notedTextOf = (number: number, share = (text: string) => text): string | undefined => {
    const read = textOf(number);
    const text = read === undefined ? undefined : share(read);
    if (text !== undefined) texts.set(text, number);
    nextNumber = Math.max(nextNumber, number + 1);
    return text;
  };
  for (const [policy, snapshot] of parsed.meters) {
    // A meter without limits keeps each state until a call brings the limit of the state, or the state is idle.
    const meter = LimitsMeter.from([], attachSegments(snapshotAt(snapshot, notedTextOf), notedTextOf));
    keyState.refused ??= meter.refused;
    keyState.meters.set(policy, { meter, writtenChanges: meter.changes, seenMs: meter.seenMs });
  }
  const [storedReservations, storedSlices, storedBatches, storedKeyRules, storedPolicyRules, storedParts] = parsed.rest;
  const reservations = new Reservations();
  if (!readEntries(storedReservations, reservationForm, reservations)) {
    keyState.refused ??= "reservations are not of this version";
  }
  const slices = new Slices();
  if (!readEntries(storedSlices, sliceForm, slices)) keyState.refused ??= "slices are not of this version";
  const batches = new Map(rowsIn(storedBatches).flatMap(batchFrom));
  const rules = KeyRuleSets.revived(rowsIn(storedKeyRules));
  const policyRules = new Map(
    rowsIn(storedPolicyRules).flatMap((each) => policyRulesFrom(each, (number) => notedTextOf(number, sharedText))),
  );
  keyState.reservations = reservations.isEmpty ? null : reservations;
  keyState.slices = slices.isEmpty ? null : slices;
  keyState.batches = batches.size === 0 ? null : batches;
  keyState.rules = rules.isEmpty ? null : rules;
  keyState.policyRules = policyRules.size === 0 ? null : policyRules;
  keyState.parts = SharedParts.revived(key, rowsIn(storedParts), notedTextOf);
  keyState.stored = storedRows(texts, nextNumber);
  return keyState;
}

export function writtenRow({ bornAtMs, meters, rest }: RowFields, idleAtMs: number, texts: TextNumbers): WrittenRow {
  const rowOf = (stored: readonly unknown[]): string =>
    JSON.stringify([rowVersion, idleAtMs, bornAtMs, texts.count(), stored, ...rest]);
  const row = rowOf(meters);
  if (row.length <= mostRowBytes) return { row, apart: [], apartBytes: 0, lost: [] };
  const snapshots = meters.map(([policy, snapshot]) => [policy, JSON.stringify(snapshot)] as const);
  const apart = new Map<string, number>();
  const lost = new Set<string>();
  let apartBytes = 0;
  let excessBytes = row.length - mostRowBytes + meters.length * bytesOfNumber;
  for (const [policy, text] of snapshots.toSorted(([, a], [, b]) => b.length - a.length)) {
    if (excessBytes <= 0) break;
    excessBytes -= text.length;
    if (text.length > mostRowBytes) lost.add(policy);
    else {
      apart.set(policy, texts.numberOf(text));
      apartBytes += text.length;
    }
  }
  const stored = meters
    .filter(([policy]) => !lost.has(policy))
    .map(([policy, snapshot]) => [policy, apart.get(policy) ?? snapshot]);
  return { row: rowOf(stored), apart: [...apart.keys()], apartBytes, lost: [...lost] };
}

/** Upper bound on the JSON of a number in place of a snapshot. */
const bytesOfNumber = 12;

/** Returns the fields of a row; null for a row that this version did not write. */
export function parsedRow(row: unknown): RowFields | null {
  const parsed = typeof row === "string" ? jsonOrNull(row) : null;
  if (!Array.isArray(parsed)) return null;
  const [version, , bornAtMs, , meters, ...rest]: unknown[] = parsed;
  if (version !== rowVersion || typeof bornAtMs !== "number") return null;
  return Array.isArray(meters) && meters.every(isNamed) ? { bornAtMs, meters, rest } : null;
}

/** The lists in a stored list. Whatever has another form was not written by this version, and is left out. */
const rowsIn = (stored: unknown): readonly (readonly unknown[])[] =>
  Array.isArray(stored) ? stored.filter((row) => Array.isArray(row)) : [];

function batchFrom([isolate, batch, atMs]: readonly unknown[]): [string, { batch: number; atMs: number }][] {
  return typeof isolate === "string" && isCount(batch) && isCount(atMs) ? [[isolate, { batch, atMs }]] : [];
}

function policyRulesFrom(
  [policy, epoch, version, written]: readonly unknown[],
  textOf: (number: number) => string | undefined,
): [string, PolicyRules][] {
  const text = typeof written === "number" ? textOf(written) : written;
  if (typeof policy !== "string" || typeof text !== "string" || !isCount(epoch) || !isCount(version)) return [];
  return [[policy, { epoch, version, text: sharedText(text) }]];
}

/** Most objects have one text for each policy. */
const mostShared = 64;
const sharedTexts = new BoundedMap<string>(mostShared);

/** Returns the same string for equal texts: each row that is read has a copy, and the keys need not keep one each. */
function sharedText(text: string): string {
  const shared = sharedTexts.get(text);
  if (shared === undefined) sharedTexts.set(text, text);
  return shared ?? text;
}

const isNamed = (value: unknown): value is readonly [string, unknown] =>
  Array.isArray(value) && value.length === 2 && typeof value[0] === "string";

/** The snapshot of a stored meter, which may be the number of a text; null if that text is missing or no JSON. */
export function snapshotAt(stored: unknown, textOf: (number: number) => string | undefined): unknown {
  if (typeof stored !== "number") return stored;
  const text = textOf(stored);
  return text === undefined ? null : jsonOrNull(text);
}

const headPattern = new RegExp(`^\\[${rowVersion},(\\d+),(\\d+),(\\d+),`);

/** Returns the head of a row without parsing the rest; null for a row that this version did not write. */
export function headOf(row: unknown): { idleAtMs: number; bornAtMs: number; hasTexts: boolean } | null {
  const [, idleAtMs, bornAtMs, textCount] = headPattern.exec(typeof row === "string" ? row : "") ?? [];
  if (idleAtMs === undefined) return null;
  return { idleAtMs: Number(idleAtMs), bornAtMs: Number(bornAtMs), hasTexts: textCount !== "0" };
}

/**
 * Renews a row whose key has live rules: a sweep must not delete it, even if its head says that it is idle.
 * @returns null for a row without live rules
 */
export function renewedRow(row: unknown, nowMs: number): { readonly row: string; readonly idleAtMs: number } | null {
  // Most rows have no rules: do not parse them.
  if (typeof row !== "string" || !row.includes('"kind":')) return null;
  const idleAtMs = KeyRuleSets.revived(rowsIn(parsedRow(row)?.rest[3])).liveUntilMs(nowMs);
  if (idleAtMs <= nowMs) return null;
  const renewed = row.replace(headPattern, `[${rowVersion},${idleAtMs},$2,$3,`);
  return { row: renewed, idleAtMs };
}

/** The stored form of reservations or of slices. */
interface EntryForm<Entry extends OpenEntry> {
  /** How many fields of a stored entry stand between its id and its parts. */
  readonly fieldCount: number;
  readonly fieldsOf: (entry: Entry) => unknown[];
  readonly partFieldsOf: (part: Entry["parts"][number]) => unknown[];
  /** Null for fields that this version did not write; the same holds for `partFrom`. */
  readonly entryFrom: (
    id: string,
    fields: readonly unknown[],
    parts: readonly Entry["parts"][number][],
  ) => Entry | null;
  readonly partFrom: (part: OpenPart, fields: readonly unknown[]) => Entry["parts"][number] | null;
}

const reservationForm: EntryForm<Reservation> = {
  fieldCount: 3,
  fieldsOf: ({ ttlMs, expiresAtMs, isConfirmed, isDryRun, others }) => {
    const flags = (isConfirmed ? 1 : 0) + (isDryRun ? 2 : 0);
    return [
      ttlMs,
      expiresAtMs,
      others === undefined ? flags : [flags, ...others.flatMap(({ key, count }) => [key, count])],
    ];
  },
  partFieldsOf: ({ cost, spentAtMs, heldAtMs, children = [] }) => [
    cost,
    spentAtMs,
    ...(heldAtMs === spentAtMs && children.length === 0 ? [] : [heldAtMs]),
    ...children.map(({ key, policy, index, guaranteed }) => [key, policy, index, guaranteed]),
  ],
  entryFrom(id, [ttlMs, expiresAtMs, written], parts) {
    if (!isCount(ttlMs) || !isCount(expiresAtMs)) return null;
    const [flags, ...others]: unknown[] = Array.isArray(written) ? written : [written];
    const isConfirmed = flags === 1 || flags === 3;
    return {
      id,
      ttlMs,
      expiresAtMs,
      isConfirmed,
      isDryRun: flags === 2 || flags === 3,
      parts,
      ...(Array.isArray(written) && { others: othersFrom(others) }),
    };
  },
  partFrom(part, [cost, spentAtMs, heldAtMs = spentAtMs, ...written]) {
    if (!isCount(cost) || !isCount(spentAtMs) || !isCount(heldAtMs)) return null;
    const children = rowsIn(written).flatMap(childFrom);
    return { ...part, cost, spentAtMs, heldAtMs, ...(children.length > 0 && { children }) };
  },
};

const childFrom = ([key, policy, index, guaranteed]: readonly unknown[]): ChildPart[] =>
  typeof key === "string" &&
  typeof policy === "string" &&
  isCount(index) &&
  (guaranteed === "fair" || isCount(guaranteed))
    ? [{ key, policy, index, guaranteed }]
    : [];

/** Reads `[key, count, key, count, …]`. */
const othersFrom = (values: readonly unknown[]): NonNullable<Reservation["others"]> =>
  values.flatMap((key, index) => {
    const count = values[index + 1];
    return index % 2 === 0 && typeof key === "string" && isCount(count) ? [{ key, count }] : [];
  });

const sliceForm: EntryForm<OpenSlice> = {
  fieldCount: 2,
  fieldsOf: ({ units, ttlMs }) => [units, ttlMs],
  partFieldsOf: ({ endsAtMs }) => [endsAtMs],
  entryFrom: (id, [units, ttlMs], parts) =>
    isCount(units) && units > 0 && isCount(ttlMs) && parts.length > 0 ? { id, units, ttlMs, parts } : null,
  partFrom: ({ policy, limits }, [endsAtMs]) =>
    isCount(endsAtMs) ? { policy, limits: internedLimits(limits), endsAtMs } : null,
};

/**
 * `[lists of limits, …entries]`. An entry is `[id, …fields, …parts]`. A part is `[policy, index of its list, …fields]`,
 * because most entries of a key share their limits.
 */
function writtenEntries<Entry extends OpenEntry>(
  entries: ReadonlyMap<string, Entry>,
  { fieldsOf, partFieldsOf }: EntryForm<Entry>,
): unknown[] {
  const lists: (readonly Limit[])[] = [];
  const indexes = new Map<readonly Limit[], number>();
  const indexOf = (limits: readonly Limit[]): number => {
    const index = indexes.get(limits) ?? lists.push(limits) - 1;
    indexes.set(limits, index);
    return index;
  };
  const written = [...entries.values()].map((entry) => [
    entry.id,
    ...fieldsOf(entry),
    ...entry.parts.map((part) => [part.policy, indexOf(part.limits), ...partFieldsOf(part)]),
  ]);
  return [lists, ...written];
}

/**
 * Opens the entries in a result of `writtenEntries`; undefined stands for no entries.
 * @returns false when it has left out entries that are not in this form
 */
function readEntries<Entry extends OpenEntry>(
  stored: unknown,
  form: EntryForm<Entry>,
  entries: { open(entry: Entry): void },
): boolean {
  if (stored === undefined) return true;
  const [lists, ...rows]: unknown[] = Array.isArray(stored) ? stored : [null, stored];
  const read = rows.map((row) => (Array.isArray(row) ? readEntry(row, lists, form) : null));
  for (const entry of read) if (entry !== null) entries.open(entry);
  return !read.includes(null);
}

function readEntry<Entry extends OpenEntry>(
  [id, ...rest]: readonly unknown[],
  lists: unknown,
  { fieldCount, entryFrom, partFrom }: EntryForm<Entry>,
): Entry | null {
  const rows = rest.slice(fieldCount);
  const parts = rows.flatMap((row) => {
    const [policy, index, ...fields]: unknown[] = Array.isArray(row) ? row : [];
    const limits: unknown = Array.isArray(lists) && isCount(index) ? lists[index] : undefined;
    return typeof policy === "string" && isLimits(limits) ? (partFrom({ policy, limits }, fields) ?? []) : [];
  });
  if (typeof id !== "string" || parts.length !== rows.length) return null;
  return entryFrom(id, rest.slice(0, fieldCount), parts);
}
