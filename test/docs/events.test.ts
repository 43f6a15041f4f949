/** The log lines on every page are events with the declared fields. */
import { describe, expect, it } from "vitest";
import { eventProblems, isEvent } from "./event-blocks.ts";
import { readPages } from "./pages.ts";

it("every log line on a page is an event with the fields and types that the code declares", () => {
  const problems = readPages()
    .flatMap(({ blocks }) => blocks.filter(isEvent))
    .flatMap(({ page, line, text }) => eventProblems(text).map((problem) => `${page}:${line}: ${problem}`));
  expect(problems).toEqual([]);
});

describe("the check of log lines", () => {
  const denied = {
    event: "request-denied",
    policy: "a",
    reason: "limit",
    violated: ["a"],
    retryAfterMs: null,
  };

  it.each([
    [JSON.stringify(denied)],
    [JSON.stringify({ ...denied, retryAfterMs: 5, key: "k", omitted: 3 }, null, 2)],
    [`${JSON.stringify(denied)}\n{"event":"token-number-inexact"}\n`],
    ['{"event":"origin-loop","reason":"via"}'],
  ])("the log line %s has no problem", (text) => {
    expect(eventProblems(text)).toEqual([]);
  });

  it.each([
    ["", "expected an event"],
    ["none", 'expected an event in JSON, got "none"'],
    ['{"event":"denied"}', "unknown event denied"],
    ['{"event":"origin-too-slow"}', "origin-too-slow: the field timeoutMs is missing"],
    ['{"event":"denials-omitted","omitted":1,"a":1}', "denials-omitted: unknown field a"],
    ['{"event":"denials-omitted","omitted":"1"}', "denials-omitted: omitted is no number"],
    ['{"event":"spends-dropped","policies":[1]}', "spends-dropped: policies is no readonly string[]"],
    ['{"event":"origin-loop","reason":"x"}', 'origin-loop: reason is no "origin-is-self" | "via"'],
  ])("the log line %s is reported", (text, problem) => {
    expect(eventProblems(text)).toEqual([problem]);
  });
});
