/** The entry that a change of a list adds, and the key that it matches. */
import { entryText } from "../parts/rule-text.ts";

/** Null unless the change adds one entry and removes none. */
export function addedEntry(before: readonly unknown[], after: readonly unknown[]): unknown {
  const old = new Set(before.map(entryText));
  const added = after.filter((entry) => !old.has(entryText(entry)));
  return added.length === 1 && after.length === old.size + 1 ? added[0] : null;
}

const network = /^[\d.a-f:]+\/\d{1,3}$/i;
const address = /^(?:\d{1,3}(?:\.\d{1,3}){3}|[\da-f]*(?::[\da-f]*){2,7})$/i;

/** The parts of the only key that an entry matches; null for a network, a condition or an address that is no key. */
export function onlyKeyOf(entry: unknown, parts: readonly string[]): readonly string[] | null {
  const isOverride = typeof entry === "object" && entry !== null && !Array.isArray(entry);
  const written: unknown = isOverride ? Reflect.get(entry, "key") : entry;
  const key = Array.isArray(written) ? written : [written];
  if (key.length !== parts.length || !key.every((part) => typeof part === "string")) return null;
  const [only = ""] = key;
  if (key.length > 1) return key;
  if (network.test(only)) return null;
  return address.test(only) && parts[0] !== "ip" ? null : key;
}
