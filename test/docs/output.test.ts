import { describe, expect, it } from "vitest";
import { difference, matches, outputsOf } from "./output.ts";
import { parsePage } from "./pages.ts";

const answer = 'HTTP/1.1 200 OK\r\nRateLimit: "a";r=4;t=10\r\nServer: x\r\n\r\n{"a":1,"b":[1,2]}\n';

const isShown = (language: string, text: string, output: string): boolean =>
  difference({ language, text }, output) === null;

describe("the comparison of shown and printed output", () => {
  it.each([
    ["http", 'HTTP/1.1 200 OK\nratelimit: "a";r=4;t=…\n', answer],
    ["json", '{ "a": 1 }', answer],
    ["json", '{\n  "b": [1, 2],\n  …\n}', answer],
    ["json", '{"a":1}\n{"a":"b…"}', '{"a":1,"c":2}\n{"a":"bcd"}\n'],
    ["json", '{"a":"…"}', '{"a":5}'],
    ["text", "200 200 429\n", "200 200 429 \n"],
    ["text", "first\n…\nlast", "first\nsecond\nthird\nlast\n"],
  ])("a %s block %j matches the output %j", (language, text, output) => {
    expect(isShown(language, text, output)).toBe(true);
  });

  it.each([
    ["http", "HTTP/1.1 429 Too Many Requests", answer],
    ["http", 'RateLimit: "A";r=4;t=10', answer],
    ["http", "Retry-After: 1", ""],
    ["json", '{ "a": 2 }', answer],
    ["json", '{ "c": 1 }', answer],
    ["json", '{ "b": [1] }', answer],
    ["json", '{"a":1}', '{"a":1}\n{"a":1}'],
    ["json", '{"a":1}', "no JSON"],
    ["json", "no JSON", "no JSON"],
    ["json", "", ""],
    ["text", "200 429", "200 200 429"],
    ["text", "…", "200 429"],
    ["http", "\n", answer],
    ["text", "429", "200 429"],
    ["text", "200.", "2001"],
  ])("a %s block %j differs from the output %j", (language, text, output) => {
    expect(isShown(language, text, output)).toBe(false);
  });

  it("a block of a denial matches the denial with another wait, and nothing else", () => {
    const shown = { language: "http", info: ["denial"], text: "Retry-After: 10\nRetry in 10 seconds." };
    expect(difference(shown, "Retry-After: 9\n\nRetry in 8 seconds.")).toBeNull();
    expect(difference(shown, "Retry-After: 9\n\nRetry in 8 days.")).toContain("Retry in");
  });

  it("an ellipsis matches any text, and any other character only itself", () => {
    expect([matches("a…c", "a\nb\nc"), matches("a.c", "abc"), matches("a…c", "ac")]).toEqual([true, false, true]);
  });
});

it("the outputs of a command block are the output blocks between it and the next block of another kind", () => {
  const page = parsePage(
    "a.md",
    "```bash\na\n```\n\n```http\nb\n```\n\nand\n\n```json\nc\n```\n\n```text figure\nd\n```\n",
  );
  const shown = page.blocks.map((block) => outputsOf(page, block).map(({ text }) => text.trim()));
  expect(shown).toEqual([["b", "c"], ["c"], [], []]);
});
