/** The fields of requests to the origin equal those that docs/reference/headers.md shows. */
import { expect, it } from "vitest";
import { addForwardingFields, hopByHop } from "../../src/http/proxy/forward.ts";
import { pageBlock } from "./page-block.ts";
import { codesIn, readPage } from "./pages.ts";

const page = readPage("docs/reference/headers.md");

/** The lines of the text picture that contains these words, with field names in lower case. */
const shownWith = (words: string): string[] =>
  pageBlock("reference/headers", "text figure", words)
    .trim()
    .split("\n")
    .map((line) => line.replace(/^[\w-]+/, (name) => name.toLowerCase()));

it("the page about headers shows the forwarding fields that the origin receives, and no other", () => {
  const url = new URL("https://limits.example.com/hello");
  const received = new Request(url, { headers: { "CF-Connecting-IP": "203.0.113.7" } });
  const headers = new Headers();
  addForwardingFields(headers, received, url, "headgate-4f0Q2sXe");
  const shown = [...shownWith("Via:"), ...shownWith("Forwarded:")];
  const sent = [...headers].map(([name, value]) => `${name}: ${value}`);
  expect(shown.toSorted()).toEqual(sent.toSorted());
});

it("the page about headers names every hop-by-hop field and no other", () => {
  const [, list = ""] = /### Hop-by-hop headers\n([^]*?)\n#/.exec(page.text) ?? [];
  const [, names = ""] = /:\s([^.]*)\./.exec(list) ?? [];
  expect(codesIn(names).toSorted()).toEqual(hopByHop.toSorted());
});
