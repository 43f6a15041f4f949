import { afterEach, describe, expect, it, vi } from "vitest";
import { errorText, type Event, report } from "../../src/observability/events.ts";

afterEach(() => void vi.restoreAllMocks());

describe("event levels", () => {
  it.for<["log" | "warn" | "error", Event]>([
    ["warn", { event: "configuration-warning", warnings: ["w"] }],
    ["warn", { event: "dry-run-denied", policy: "p", violated: ["p"] }],
    ["log", { event: "request-denied", policy: "p", reason: "limit", violated: ["p"], retryAfterMs: 1 }],
    ["log", { event: "denials-omitted", omitted: 1 }],
    ["error", { event: "internal-error", error: "e" }],
    ["error", { event: "origin-unreachable", error: "e" }],
  ])("the console level is %s for %j", ([level, event]) => {
    const levels: string[] = [];
    for (const each of ["log", "warn", "error"] as const) {
      vi.spyOn(console, each).mockImplementation(() => void levels.push(each));
    }
    report(event);
    expect(levels).toEqual([level]);
  });
});

describe("errorText", () => {
  it.for<[unknown, string]>([
    [new RangeError("too far"), "RangeError: too far"],
    ["a text", "a text"],
    [new Error('no "https://a.example/b?key=1#c"'), 'Error: no "https://a.example/b"'],
    [new Error("wss://me:secret@a.example:1/b/c?d=e next"), "Error: wss://a.example:1/b/c next"],
    [new Error("http://a.example#frag, http://b.example?x"), "Error: http://a.example http://b.example"],
    [new Error(`https://a.example/?${"k".repeat(2_000)}`), "Error: https://a.example/"],
    [new Error("x".repeat(2_000)), `Error: ${"x".repeat(493)}`],
  ])("the text of %s is %s, without query, fragment and credentials of a URL", ([error, expected]) => {
    expect(errorText(error)).toBe(expected);
  });
});
