/** A test runs every fenced block of every page. */
import { expect, it } from "vitest";
import { claimsIn, readClaims, unclaimedBlocks } from "./claims.ts";
import { infoOf, parsePage, readPages } from "./pages.ts";

it("every fenced block of the documentation is run or compared by a test", () => {
  const claims = readClaims();
  const unclaimed = readPages()
    .flatMap((page) => unclaimedBlocks(page, claims))
    .map((block) => `${block.page}:${block.line}: no test runs this block of ${infoOf(block)}`);
  expect(unclaimed).toEqual([]);
});

it("blocks that a runner handles need no test of their own, and all others do", () => {
  const infos = ["toml", "bash", "http", "toml invalid", "text", "bash account", "bash example", "json event"];
  const others = ["json", "toml other", "nginx", "bash other", ""];
  const fences = [...infos, "mermaid", "text figure", ...others].map((info) => `\`\`\`${info}\n\`\`\`\n`);
  const unclaimed = unclaimedBlocks(parsePage("docs/a.md", fences.join("\n")), []);
  expect(unclaimed.map(infoOf)).toEqual(others);
});

it("a test claims blocks by their page, language and words", () => {
  const page = parsePage("docs/how-to/a.md", "```js\none\n```\n\n```js\ntwo\n```\n\n```ts\none\n```\n");
  const unclaimed = (code: string): number => unclaimedBlocks(page, claimsIn(code)).length;
  expect(unclaimed("")).toBe(3);
  expect(unclaimed('pageBlock("how-to/a", "js", "one")')).toBe(2);
  expect(unclaimed('const page = "how-to/a";\npageBlock(page, "ts")')).toBe(2);
  expect(unclaimed('pageBlock("how-to/b", "js")')).toBe(3);
  expect(unclaimed('readFileSync("docs/how-to/a.md"); /^```js\\n/.exec(page)')).toBe(1);
  expect(unclaimed('readPage("docs/how-to/a.md"); ({ language }) => language === "js"')).toBe(1);
  expect(unclaimed('readFileSync("docs/how-to/a.md"); // js')).toBe(3);
});
