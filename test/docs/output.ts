/** Compares the output of a command with the output that a page shows. `…` in shown text matches any text. */
import { isDeepStrictEqual } from "node:util";
import { isRecord } from "../../src/validation/json.ts";
import type { Block, Page } from "./pages.ts";

const outputLanguages = new Set(["http", "json", "text"]);

/** Whether a block shows the output of the commands above it. `text figure` and `json event` blocks do not. */
export const isOutput = ({ language, info }: Block): boolean =>
  outputLanguages.has(language) && (info.length === 0 || info[0] === denial);

/** The word of an `http` block with a denial: its waits are those of a fast machine, so that other waits match, too. */
const denial = "denial";

const withoutWaits = (text: string): string => text.replaceAll(/(Retry-After: |;t=|Retry in )\d+/g, "$1N");

/** The output blocks between this block and the next block of another kind. */
export function outputsOf(page: Page, block: Block): Block[] {
  const following = page.blocks.slice(page.blocks.indexOf(block) + 1);
  const end = following.findIndex((each) => !isOutput(each));
  return end < 0 ? following : following.slice(0, end);
}

type Shown = Pick<Block, "language" | "text"> & Partial<Pick<Block, "info">>;

/** Returns null if the output matches the block, and otherwise describes the difference. */
export function difference({ language, info, text: shown }: Shown, output: string): string | null {
  const toCompared = info?.[0] === denial ? withoutWaits : String;
  const printed = toCompared(output.replaceAll("\r\n", "\n").trim());
  const text = toCompared(shown.trim());
  // A text that consists only of `…` would match any output.
  if (/^[\s…]*$/.test(text)) return "the block shows no output";
  switch (language) {
    case "http":
      return httpDifference(text, printed);
    case "json":
      return jsonDifference(text, printed);
    default:
      return matches(text, printed) ? null : differing(text, printed);
  }
}

const differing = (shown: string, printed: string): string =>
  `shown:\n${indented(shown)}\nprinted:\n${indented(printed)}`;

const indented = (text: string): string => text.replace(/^/gm, "  ");

/** Whether a text equals the shown text, in which `…` stands for any text. */
export function matches(shown: string, text: string): boolean {
  const parts = shown.split("…").map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${parts.join("[^]*")}$`).test(text);
}

/** Each shown line must occur in the output. Names of header fields are case-insensitive. */
function httpDifference(shown: string, printed: string): string | null {
  const lines = printed.split("\n").map(comparable);
  const absent = shown
    .split("\n")
    .filter((line) => line.trim() !== "" && line.trim() !== "…")
    .filter((line) => !lines.some((each) => matches(comparable(line), each)));
  return absent.length === 0 ? null : differing(absent.join("\n"), printed);
}

const comparable = (line: string): string => line.trimEnd().replace(/^[\w-]+(?=:)/, (name) => name.toLowerCase());

/** The output must have the shown members and may have others. Several documents stand one after the other. */
function jsonDifference(shown: string, printed: string): string | null {
  const expected = documentsOf(shown.replace(/,?\n\s*…,?[ \t]*(?=\n)/g, ""));
  if (expected === null || expected.length === 0) return `the shown text is not JSON:\n${shown}`;
  const found = documentsOf(printed) ?? documentsOf(bodyOf(printed)) ?? [];
  const isShown = found.length === expected.length && expected.every((each, index) => includes(each, found[index]));
  return isShown ? null : differing(shown, printed);
}

/** The text after the header fields that `curl -i` prints. */
const bodyOf = (printed: string): string => printed.split("\n\n").at(-1) ?? "";

/** The JSON documents in a text: a single document, or one on each line. Null if the text is neither. */
export function documentsOf(text: string): unknown[] | null {
  try {
    return [JSON.parse(text) as unknown];
  } catch {
    try {
      return text
        .split("\n")
        .filter((line) => line.trim() !== "")
        .map((line) => JSON.parse(line) as unknown);
    } catch {
      return null;
    }
  }
}

function includes(shown: unknown, value: unknown): boolean {
  if (typeof shown === "string") {
    return typeof value === "string" ? matches(shown, value) : shown === "…";
  }
  if (Array.isArray(shown)) {
    return (
      Array.isArray(value) &&
      value.length === shown.length &&
      shown.every((each, index) => includes(each, value[index]))
    );
  }
  if (isRecord(shown)) {
    return isRecord(value) && Object.entries(shown).every(([name, each]) => includes(each, value[name]));
  }
  return isDeepStrictEqual(shown, value);
}
