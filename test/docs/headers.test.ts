/** The fields of requests to the origin are as docs/reference/headers.md shows them. */
import { expect, it } from "vitest";
import { addForwardingFields, removeHopByHop } from "../../src/http/proxy/gateway-fields.ts";
import { matches } from "./output.ts";
import { readPage } from "./pages.ts";

const page = readPage("docs/reference/headers.md");

/** The lines of the pictures of fields. */
const shown = page.blocks
  .filter(({ language, info }) => language === "text" && info[0] === "figure")
  .flatMap(({ text }) => text.trim().split("\n"));

it("the page shows the forwarding fields that the origin receives", () => {
  const url = new URL("https://limits.example.com/hello");
  const received = new Request(url, { headers: { "CF-Connecting-IP": "203.0.113.7" } });
  const headers = new Headers();
  addForwardingFields(headers, received, url, "headgate-4f0Q2sXe");
  const sent = [...headers].map(([name, value]) => `${name}: ${value}`);
  const lower = shown.map((line) => line.replace(/^[\w-]+/, (name) => name.toLowerCase()));
  expect(sent.filter((line) => !lower.some((each) => matches(each, line)))).toEqual([]);
});

it("the page names every hop-by-hop field", () => {
  const [, list = ""] = /### Hop-by-hop fields\n([^]*?)\n#/.exec(page.text) ?? [];
  const names = [...list.matchAll(/`([\w-]+)`/g)].map(([, name = ""]) => name);
  const headers = new Headers(names.map((name) => [name, "x"]));
  removeHopByHop(headers);
  expect([...headers.keys()]).toEqual([]);
  expect(names).toContain("Transfer-Encoding");
});
