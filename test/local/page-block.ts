/** Code blocks of the pages in docs/, for tests that run them. */
import { readFileSync } from "node:fs";

/** The text of a page, such as "how-to/behind-nginx". */
export const pageText = (page: string): string => readFileSync(`docs/${page}.md`, "utf8");

/**
 * The only code block of a page with this info string and these words.
 * @param info the language, and what follows it, such as "toml other"
 * @throws Error if there is none, or more than one
 */
export function pageBlock(page: string, info: string, words = ""): string {
  const blocks = [...pageText(page).matchAll(/^```([^\n]+)\n([^]*?)^```$/gm)].filter(
    ([, language, text = ""]) => language === info && text.includes(words),
  );
  if (blocks.length !== 1) {
    throw new Error(
      `expected one block of ${info} with "${words}" in ${page}, got ${blocks.length}`,
    );
  }
  return blocks[0]?.[2] ?? "";
}
