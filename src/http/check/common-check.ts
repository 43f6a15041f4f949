/**
 * Reads the common forms of a check and of its query without the schemas, which take several times as long. The schemas
 * read all other forms, and report invalid ones.
 */
import { greatestCost } from "../../policy/cost.ts";
import { mostKeyParts } from "../../policy/key.ts";
import { isRecord } from "../../validation/problems.ts";
import type { DenyOption, PolicyCheck } from "./input.ts";

/** In UTF-16 units, each of which takes at most 3 bytes of UTF-8: such a key has at most 1,024 bytes. */
const longestKeyText = 341;

/** @returns null for a check of another form */
export function commonCheck(body: unknown): PolicyCheck | null {
  if (!isRecord(body)) return null;
  const check: { policy?: string; key?: readonly string[]; cost: number } = { cost: 1 };
  for (const name of Object.keys(body)) {
    const value = body[name];
    if (name === "policy" && typeof value === "string") check.policy = value;
    else if (name === "key" && isKeyText(value)) check.key = [value];
    else if (name === "key" && isKeyList(value)) check.key = value;
    else if (name === "cost" && isCost(value)) check.cost = value;
    else return null;
  }
  return check;
}

const isKeyText = (value: unknown): value is string =>
  typeof value === "string" && value.length > 0 && value.length <= longestKeyText && value.isWellFormed();

const isKeyList = (value: unknown): value is readonly string[] =>
  Array.isArray(value) &&
  value.length > 0 &&
  value.length <= mostKeyParts &&
  // `every` would skip the holes of a sparse list.
  !value.includes(undefined) &&
  value.every(isKeyText);

const isCost = (value: unknown): value is number =>
  Number.isSafeInteger(value) && Number(value) >= 0 && Number(value) <= greatestCost;

/** @returns null for a query of another form */
export function commonDenyOption(query: unknown): DenyOption | null {
  if (!isRecord(query)) return null;
  const names = Object.keys(query);
  if (names.length === 0) return {};
  const { deny } = query;
  if (names.length > 1 || (deny !== "429" && deny !== "403")) return null;
  return { deny: deny === "429" ? 429 : 403 };
}
