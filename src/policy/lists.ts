/** The fields `overrides`, `allow` and `deny`: other limits for some keys, an allowlist and a blocklist. */
import {
  acceptedStrategy,
  type Limit,
  type LimitDefaults,
  readLimits,
  strategies,
  type ReportAt,
} from "../strategies/index.ts";
import type { KeyPart, KeyValue } from "./key.ts";
import {
  acceptedList,
  type Condition,
  type SubjectPattern,
  looksLikeAddress,
  mostListEntries,
  readCondition,
  readSubjectPattern,
  type Pattern,
} from "./subject-pattern.ts";
import { pathPatternOf, hasPieces } from "./match.ts";
import type { WrittenFields } from "./schemas.ts";
import type { PathPattern } from "./path-pattern.ts";
import { isRecord } from "../validation/json.ts";
import { hidden, acceptedFields, asText, type ReportField, joinPath, nearestName } from "../validation/problems.ts";
import { type Address, isWithin } from "./address.ts";
import type { Policy } from "./policy.ts";
import type { RuleEntry } from "./runtime-rules.ts";
import { settingsOfPart, type TreePlace } from "./within.ts";

/** Limits that replace the policy's limits for one subject or condition. */
export interface Override {
  readonly for: SubjectPattern | { readonly kind: "condition"; readonly condition: Condition };
  readonly limits: readonly Limit[];
}

export interface Lists {
  /** The first match applies. */
  readonly overrides: readonly Override[];
  readonly allow: readonly SubjectPattern[];
  readonly deny: readonly SubjectPattern[];
}

interface PolicyKey {
  readonly parts: readonly KeyPart[];
  /** The policy's path pattern, which determines how the key part `path` is written. */
  readonly path: PathPattern | null;
  /** Whether invalid entries may be credentials, such as API keys. */
  readonly mayHoldSecrets: boolean;
}

export const acceptedOverrides = `a list of up to ${mostListEntries} overrides such as { key = "partner-42", limits = "100/minute" }`;
const overrideFields = ["key", "when", "limits", "strategy"];

export function readLists(
  written: WrittenFields,
  { parent, key: parts }: TreePlace,
  defaults: LimitDefaults,
  report: ReportField,
): Lists {
  const reportAt: ReportAt = (field, value, accepted) => report({ field, value, accepted });
  // If the field `key` was forgotten, entries may be values of a secret part.
  const mayHoldSecrets = written["key"] === undefined || parts?.some((part) => "name" in part) === true;
  const path = parent?.key.some(({ kind }) => kind === "path")
    ? settingsOfPart({ ...parent, ...parent.shared }, { kind: "path" }).match.path
    : pathPatternOf(written);
  // Entries are not validated against an invalid key.
  const key = parts === null ? null : { parts, path, mayHoldSecrets };
  const subject = (value: unknown, field: string): SubjectPattern | null => readSubject(value, key, field, reportAt);
  return {
    overrides: readList(written, "overrides", acceptedOverrides, reportAt, (value, field) =>
      readOverride(value, field, key, defaults, report),
    ),
    allow: readList(written, "allow", acceptedList, reportAt, subject),
    deny: readList(written, "deny", acceptedList, reportAt, subject),
  };
}

/** The key parts that the conditions of overrides read. */
export const conditionParts = (overrides: readonly Override[]): KeyPart[] =>
  overrides.flatMap((each) => (each.for.kind === "condition" ? [each.for.condition.part] : []));

/** Like `conditionParts`, for a written policy that may be invalid. */
export function conditionPartsOf(policy: unknown): KeyPart[] {
  const list = isRecord(policy) ? policy["overrides"] : undefined;
  const overrides: unknown[] = Array.isArray(list) ? list : [];
  return overrides.flatMap((each) => {
    const condition = readCondition(isRecord(each) ? each["when"] : undefined);
    return "value" in condition ? [condition.value.part] : [];
  });
}

function readList<Item>(
  policy: WrittenFields,
  name: string,
  accepted: string,
  reportAt: ReportAt,
  read: (value: unknown, field: string) => Item | null,
): Item[] {
  const list = policy[name];
  if (list === undefined) return [];
  if (!Array.isArray(list) || list.length > mostListEntries) {
    reportAt(name, mayContainKey(list) ? hidden : list, accepted);
    return [];
  }
  // A copy has no holes, which `map` would skip.
  const values: unknown[] = Array.from(list);
  return values.map((value, index) => read(value, `${name}[${index}]`)).filter((item) => item !== null);
}

/** Null when the policy's key is invalid, or when the value is invalid, which is reported. */
function readSubject(value: unknown, key: PolicyKey | null, field: string, reportAt: ReportAt): SubjectPattern | null {
  if (key === null) return null;
  const read = readSubjectPattern(value, key.parts, key.path);
  if ("value" in read) return read.value;
  // Problems are logged, so possible credentials are not quoted.
  reportAt(field, key.mayHoldSecrets && mayContainKey(value) ? hidden : value, read.accepted);
  return null;
}

/** Whether a value is or contains a text that is neither an address nor limits. */
const mayContainKey = (value: unknown): boolean =>
  typeof value === "string"
    ? value !== "" && !looksLikeAddress(value) && !isLimits(value)
    : typeof value === "object" && value !== null && Object.values(value).some(mayContainKey);

function isLimits(text: string): boolean {
  const problems: unknown[] = [];
  readLimits(text, {}, (problem) => problems.push(problem));
  return problems.length === 0;
}

function readOverride(
  value: unknown,
  field: string,
  key: PolicyKey | null,
  defaults: LimitDefaults,
  report: ReportField,
): Override | null {
  const reportAt: ReportAt = (within, wrong, accepted) =>
    report({ field: joinPath(field, within), value: wrong, accepted });
  if (!isRecord(value)) {
    reportAt("", mayContainKey(value) ? hidden : value, acceptedOverrides);
    return null;
  }
  for (const name of Object.keys(value)) {
    if (overrideFields.includes(name)) continue;
    const isOfLimits = ["limits", "strategy"].includes(asText(nearestName(name, overrideFields)));
    const quoted = mayContainKey(value[name]) && !isOfLimits ? hidden : value[name];
    reportAt(name, quoted, acceptedFields(name, overrideFields));
  }
  const target = readTarget(value, key, reportAt);
  const limits = readOverrideLimits(value, defaults, reportAt);
  return target === null || limits.length === 0 ? null : { for: target, limits };
}

function readTarget(
  { key: subject, when }: WrittenFields,
  key: PolicyKey | null,
  reportAt: ReportAt,
): Override["for"] | null {
  if ((subject === undefined) === (when === undefined)) {
    reportAt("key", subject, "either the field key with a key of the policy, or the field when with a condition");
    return null;
  }
  if (when === undefined) return readSubject(subject, key, "key", reportAt);
  const condition = readCondition(when);
  if ("value" in condition) return { kind: "condition", condition: condition.value };
  reportAt("when", when, condition.accepted);
  return null;
}

function readOverrideLimits(
  { limits, strategy }: WrittenFields,
  defaults: LimitDefaults,
  reportAt: ReportAt,
): readonly Limit[] {
  const own = strategies.has(asText(strategy)) ? { strategy: asText(strategy) } : null;
  if (strategy !== undefined && own === null) reportAt("strategy", strategy, acceptedStrategy);
  return readLimits(limits, { ...defaults, ...own }, ({ field, value, accepted }) =>
    reportAt(joinPath("limits", field), value, accepted),
  );
}

/** The client that a policy would charge. */
export interface Subject {
  /** Null when it is unknown. */
  readonly address: Address | null;
  readonly key: readonly KeyPart[];
  readonly values: readonly KeyValue[];
  /** All values of a part, which need not be in the key. A repeated header or a list claim has several. */
  readonly textsOf: (part: KeyPart) => readonly string[];
}

/**
 * The field of the configuration, or the runtime rule, that decided about a key. `mode`, `limits` and `onMissingKey` have
 * no entries.
 */
export interface DecisionSource {
  readonly field: "mode" | "deny" | "allow" | "onMissingKey" | "overrides" | "limits";
  /** The id of the runtime rule; null for the configuration. */
  readonly rule: string | null;
  /** The position of the entry in the field, or in the rule's entries; null without entries. */
  readonly index: number | null;
}

/**
 * The list entry that decides, so that the limits do not. Runtime rules come before the configuration, and in each of
 * them `deny` comes before `allow`. Null without a match.
 */
export function listMatch(
  { ruleLists, lists }: Policy,
  subject: Subject,
): { readonly kind: "blocked" | "exempt"; readonly source: DecisionSource } | null {
  for (const { deny, allow } of [ruleLists, lists]) {
    const denied = firstEntry("deny", deny, (entry) => isDenied(entry, subject));
    if (denied !== null) return { kind: "blocked", source: denied.source };
    const allowed = firstEntry("allow", allow, (entry) => matchesSubject(entry, subject));
    if (allowed !== null) return { kind: "exempt", source: allowed.source };
  }
  return null;
}

/** The limits of the first matching override; null without one. Runtime rules come before the configuration. */
export function overrideFor(
  { ruleLists, lists }: Policy,
  subject: Subject,
): { readonly limits: readonly Limit[]; readonly source: DecisionSource } | null {
  for (const { overrides } of [ruleLists, lists]) {
    const found = firstEntry("overrides", overrides, ({ for: target }) =>
      target.kind === "condition" ? matchesCondition(target.condition, subject) : matchesSubject(target, subject),
    );
    if (found !== null) return { limits: found.entry.limits, source: found.source };
  }
  return null;
}

/** The first entry that matches, and where it stands: in a runtime rule, or in the list itself. */
function firstEntry<Entry extends object>(
  field: DecisionSource["field"],
  list: readonly (Entry & Partial<RuleEntry>)[],
  matches: (entry: Entry) => boolean,
): { readonly entry: Entry; readonly source: DecisionSource } | null {
  const found = list.findIndex(matches);
  const entry = list[found];
  if (entry === undefined) return null;
  return { entry, source: { field, rule: entry.rule ?? null, index: entry.index ?? found } };
}

/**
 * Compares every value of each part, not only the one that is charged: a client must not evade the blocklist by sending
 * a second value.
 */
const isDenied = (entry: SubjectPattern, subject: Subject): boolean =>
  matchesSubject(entry, subject) ||
  (entry.kind === "key" &&
    entry.patterns.every((pattern, position) => {
      const part = subject.key[position];
      return part === undefined || part.kind === "global" || matchesCondition({ part, pattern }, subject);
    }));

function matchesSubject(entry: SubjectPattern, { address, key, values }: Subject): boolean {
  if (entry.kind === "address") return matchesAddress(entry.pattern, address);
  return entry.patterns.every((pattern, index) => {
    const part = key[index];
    const value = values[index] ?? null;
    if (part?.kind === "global") return true;
    if (part?.kind === "ip") return matchesAddress(pattern, address);
    return value !== null && matchesText(pattern, value);
  });
}

export function matchesCondition({ part, pattern }: Condition, { address, textsOf }: Subject): boolean {
  if (part.kind === "ip") return matchesAddress(pattern, address);
  return textsOf(part).some((text) => matchesText(pattern, text));
}

function matchesAddress(pattern: Pattern, address: Address | null): boolean {
  if (address === null) return false;
  return pattern.kind === "network" ? isWithin(address, pattern.network) : matchesText(pattern, address.toString());
}

function matchesText(pattern: Pattern, text: string): boolean {
  if (pattern.kind === "wildcard") return hasPieces(text, pattern.pieces);
  return pattern.kind === "text" && text === pattern.text;
}
