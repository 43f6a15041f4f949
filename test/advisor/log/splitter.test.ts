/** Records of a log: lines, objects over several lines, and JSON arrays. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { RecordSplitter } from "../../../src/advisor/log/splitter.ts";
import { forAll } from "../../for-all.ts";

function recordsOf(chunks: readonly string[], longest?: number): string[] {
  const records: string[] = [];
  const splitter = new RecordSplitter(
    {
      addLine: (line) => records.push(line),
      skipLine: (reason) => records.push(`skipped: ${reason}`),
    },
    longest,
  );
  for (const chunk of chunks) splitter.add(chunk);
  splitter.end();
  return records.filter((record) => record.trim() !== "");
}

const objects = [{ a: 1 }, { b: { c: ["}", "]", '"\\'] } }, {}, { d: "line\nbreak {[" }];

describe("records of a log", () => {
  it.each([
    ["an array in one line", JSON.stringify(objects)],
    ["an array over several lines", JSON.stringify(objects, null, 2)],
    ["two arrays", `${JSON.stringify(objects.slice(0, 2))}\n${JSON.stringify(objects.slice(2))}`],
    ["objects over several lines", objects.map((each) => JSON.stringify(each, null, 2)).join("\n")],
    ["objects by line", objects.map((each) => JSON.stringify(each)).join("\n")],
    ["an array after a byte order mark", `\ufeff${JSON.stringify(objects)}`],
  ])("%s gives each object, wherever chunks end", (_, text) => {
    for (let length = 1; length <= text.length; length++) {
      const chunks = text.match(new RegExp(`[^]{1,${length}}`, "g")) ?? [];
      expect(recordsOf(chunks).map((each): unknown => JSON.parse(each.trim()))).toEqual(objects);
    }
  });

  it("a truncated object does not hide the lines after it", () => {
    const lines = ['{"a":1', "common - line", '{"b":2}', "{", '  "c": 3', "}", '{"d":'];
    expect(recordsOf([lines.join("\n")])).toEqual(['{"a":1', "common - line", '{"b":2}', '{\n  "c": 3\n}', '{"d":']);
  });

  it("neither a line of Envoy nor a host in brackets is taken for the beginning of an array", () => {
    const lines = ['[2026-01-05T12:00:00.000Z] "GET / HTTP/1.1" 200', "[2001:db8::9]:443 a - - [x]"];
    for (const line of lines) expect(recordsOf([line])).toEqual([line]);
  });

  it("array elements that are too long are skipped, and the elements after them are read", () => {
    const text = JSON.stringify([{ a: "x".repeat(100) }, { b: 1 }]);
    expect(recordsOf([text.slice(0, 50), text.slice(50)], 40)).toEqual([
      "skipped: expected an element of at most 40 characters",
      '{"b":1}',
    ]);
  });

  it("array elements that are not objects are records, and an array without an end is reported", () => {
    expect(recordsOf(['[{"a":1}, 5, "x", {"b":2}, {"c":'])).toEqual([
      '{"a":1}',
      "5",
      '"x"',
      '{"b":2}',
      "skipped: the JSON array ends within an element",
    ]);
  });

  const pieces = ["{", "}", "[", "]", '"', "\\", "\n", "a", ",", '{"a":1}', "  "];
  it(
    "the records of any text do not depend on where a chunk ends",
    forAll([fc.array(fc.constantFrom(...pieces), { maxLength: 30 }), fc.nat(60)], (words, length) => {
      const text = words.join("");
      const chunks = [text.slice(0, length), text.slice(length)];
      expect(recordsOf(chunks)).toEqual(recordsOf([text]));
    }),
  );
});
