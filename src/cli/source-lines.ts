/** Finds the line of a value in a wrangler configuration file or in `.dev.vars`, so that problems can state it. */
import { existsSync, readFileSync } from "node:fs";
import { findNodeAtLocation, parseTree } from "jsonc-parser";
import { type AST, parseTOML } from "toml-eslint-parser";

/** Names of fields and indexes of lists, from the top of the file. */
export type ValuePath = readonly (string | number)[];

/** The number of the line of a value, counted from 1; null if it is not in the file. */
type FindLine = (path: ValuePath) => number | null;

/** @param file a TOML file, or JSON with comments */
export function lineFinder(file: string): FindLine {
  if (!existsSync(file)) return () => null;
  const text = readFileSync(file, "utf8");
  return /\.jsonc?$/.test(file) ? linesOfJson(text) : linesOfToml(text);
}

/** The line of the value, or of the innermost table or list around it, because a missing field has no line. */
export function nearestLine(find: FindLine, path: ValuePath, leastLength: number): number | null {
  for (let length = path.length; length >= leastLength; length--) {
    const line = find(path.slice(0, length));
    if (line !== null) return line;
  }
  return null;
}

/** `[1].limits[0].window` as a path. */
export const pathIn = (field: string): ValuePath =>
  [...field.matchAll(/\[(\d+)\]|[^.[\]]+/g)].map(([name, index]) => (index === undefined ? name : Number(index)));

function linesOfJson(text: string): FindLine {
  const root = parseTree(text);
  return (path) => {
    const node = root && findNodeAtLocation(root, [...path]);
    return node === undefined ? null : text.slice(0, node.offset).split("\n").length;
  };
}

function linesOfToml(text: string): FindLine {
  const lines = new Map<string, number>();
  const add = (path: ValuePath, { loc }: AST.TOMLNode): void => {
    const name = JSON.stringify(path);
    if (!lines.has(name)) lines.set(name, loc.start.line);
  };
  const addValue = (path: ValuePath, node: AST.TOMLContentNode): void => {
    add(path, node);
    if (node.type === "TOMLArray")
      for (const [index, each] of node.elements.entries()) addValue([...path, index], each);
    if (node.type === "TOMLInlineTable") addFields(path, node.body);
  };
  const addFields = (path: ValuePath, fields: readonly AST.TOMLKeyValue[]): void => {
    for (const { key, value } of fields) {
      const names = key.keys.map((each) => (each.type === "TOMLBare" ? each.name : each.value));
      for (const index of names.keys()) add([...path, ...names.slice(0, index + 1)], key);
      addValue([...path, ...names], value);
    }
  };
  for (const node of bodyOf(text)) {
    if (node.type === "TOMLKeyValue") addFields([], [node]);
    else {
      // The first table of a list stands for the list, too.
      for (const index of node.resolvedKey.keys()) add(node.resolvedKey.slice(0, index + 1), node);
      addFields(node.resolvedKey, node.body);
    }
  }
  return (path) => lines.get(JSON.stringify(path)) ?? null;
}

/** Empty for a file that this parser rejects. wrangler reports its syntax errors. */
function bodyOf(text: string): AST.TOMLTopLevelTable["body"] {
  try {
    return parseTOML(text).body[0].body;
  } catch {
    return [];
  }
}

/** The line that sets a variable in a file of the format of `.dev.vars`. The last line counts, as in `parseEnv`. */
export function lineInDevVars(file: string, name: string): number | null {
  if (!existsSync(file)) return null;
  const index = readFileSync(file, "utf8")
    .split("\n")
    .findLastIndex((line) => /^\s*(?:export\s+)?([\w.-]+)\s*=/.exec(line)?.[1] === name);
  return index === -1 ? null : index + 1;
}
