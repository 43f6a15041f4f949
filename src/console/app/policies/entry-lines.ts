/** Lists of entries as text that operators edit: one entry a line. */
import { entryText } from "../parts/rule-text.ts";

export const linesOf = (entries: readonly unknown[]): string => entries.map(entryText).join("\n");

export type ReadLines = { readonly entries: readonly unknown[] } | { readonly problem: string };

/** A line is JSON if it begins with a quotation mark, a bracket or a brace; otherwise it is a text. */
export function readLines(text: string): ReadLines {
  const entries: unknown[] = [];
  for (const [index, line] of text.split("\n").entries()) {
    const trimmed = line.trim();
    if (trimmed === "") continue;
    if (!/^["[{]/.test(trimmed)) entries.push(trimmed);
    else {
      const value = jsonIn(trimmed);
      if (value === undefined) {
        return { problem: `Line ${index + 1}: expected JSON, such as ["a", "b"], got ${trimmed}` };
      }
      entries.push(value);
    }
  }
  return { entries };
}

const jsonIn = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

/** Applies what was changed in a text since `base` to a newer list: no entry of either side is lost. */
export function mergeLines(base: string, typed: string, fresh: string): string {
  const known = new Set(linesIn(base));
  const wanted = new Set(linesIn(typed));
  const kept = linesIn(fresh).filter((line) => wanted.has(line) || !known.has(line));
  const added = linesIn(typed).filter((line) => !known.has(line) && !kept.includes(line));
  return [...kept, ...added].join("\n");
}

const linesIn = (text: string): string[] =>
  text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");

/** The entries that a change adds and removes. */
export function changedEntries(
  before: readonly unknown[],
  after: readonly unknown[],
): { readonly added: readonly string[]; readonly removed: readonly string[] } {
  const old = before.map(entryText);
  const current = after.map(entryText);
  return {
    added: current.filter((entry) => !old.includes(entry)),
    removed: old.filter((entry) => !current.includes(entry)),
  };
}
