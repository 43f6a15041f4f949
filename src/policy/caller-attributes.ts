/** Attributes in a call of `/check`: facts about the request that the caller asks about, which Headgate cannot see. */
import {
  canonicalText,
  type KeyPart,
  type KeyTextSettings,
  parseAddress,
  partName,
  type Policy,
  withoutPort,
} from "./vars/index.ts";
import type { KeyValue } from "./apply-key.ts";

/** By the name of a key part: at least one text. */
export type CallerAttributes = ReadonlyMap<string, readonly string[]>;

export const noAttributes: CallerAttributes = new Map();

/**
 * The first key part for which an attribute differs from the key, so that it is unclear which key to charge.
 * @param values the key's, one for each part
 * @returns the name of the part; null when key and attributes agree
 */
export function contradictedPart(
  policy: Pick<Policy, "name" | "key" | "addresses" | "match">,
  values: readonly KeyValue[],
  attributes: CallerAttributes,
): string | null {
  const contradicted = policy.key.find((part, index) => {
    const texts = attributes.get(partName(part)) ?? [];
    const value = values[index] ?? null;
    return texts.some((text) => canonicalText(part, policy, text) !== value);
  });
  return contradicted === undefined ? null : partName(contradicted);
}

/** The address for conditions. The attribute `ip` takes precedence, since a key may stand for a whole network. */
export const statedAddress = (attributes: CallerAttributes, keyText: string) =>
  parseAddress(withoutPort(attributes.get("ip")?.[0] ?? keyText));

/** The texts of a part, from the key if it has the part, otherwise from the attributes. */
export function statedTexts(
  part: KeyPart,
  key: readonly KeyPart[],
  values: readonly KeyValue[],
  attributes: CallerAttributes,
  settings: KeyTextSettings,
): readonly string[] {
  const name = partName(part);
  const value = values[key.findIndex((each) => partName(each) === name)] ?? null;
  return value === null
    ? (attributes.get(name) ?? []).map((text) => canonicalText(part, settings, text) ?? text)
    : [value];
}
