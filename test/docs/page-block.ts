/** Code blocks of the pages in docs/, for tests that run them. */
import { infoOf, type Page, readPage } from "./pages.ts";

/** The name of a page, such as "how-to/behind-nginx". */
export const pageAt = (page: string): Page => readPage(`docs/${page}.md`);

/**
 * The only code block of a page with this info string and these words.
 * @param info the language, and what follows it, such as "toml other"
 * @throws Error if there is none, or more than one
 */
export function pageBlock(page: string, info: string, words = ""): string {
  const blocks = pageAt(page).blocks.filter((block) => infoOf(block) === info && block.text.includes(words));
  const [block, ...others] = blocks;
  if (block === undefined || others.length > 0) {
    throw new Error(`expected one block of ${info} with "${words}" in ${page}, got ${blocks.length}`);
  }
  return block.text;
}
