import { describe, expect, it } from "vitest";
import { type Goal, goalText, parseGoal } from "../../../src/advisor/search/goal.ts";

const ofRequests = (mostShare: number): Goal => ({ kind: "denied-requests", mostShare });
const ofKeys = (mostShare: number): Goal => ({ kind: "denied-keys", mostShare });
const ofKey = (most: number, windowMs = 1_000): Goal => ({ kind: "key-rate", most, windowMs });
const ofOrigin = (mostPerSecond: number): Goal => ({ kind: "origin-rate", mostPerSecond });

const goals: readonly (readonly [text: string, goal: Goal])[] = [
  ["deny at most 0.1 % of requests", ofRequests(0.001)],
  ["Deny at most 0.1% of Requests.", ofRequests(0.001)],
  ["deny at most 0,1 % of all requests", ofRequests(0.001)],
  ["deny no more than 5 percent of the traffic", ofRequests(0.05)],
  ["never deny more than 1 % of requests", ofRequests(0.01)],
  ["at most 0.5 per cent of requests may be denied", ofRequests(0.005)],
  ["reject less than 1‰ of requests", ofRequests(0.001)],
  ["deny at most 2 per mille of requests", ofRequests(0.002)],
  ["deny at most 50 ppm of requests", ofRequests(0.000_05)],
  ["deny at most 1 request in 10,000", ofRequests(0.000_1)],
  ["deny at most 1 in 10 000 requests", ofRequests(0.000_1)],
  ["deny at most one request in a million", ofRequests(0.000_001)],
  ["deny at most half a percent of requests", ofRequests(0.005)],
  ["deny <= 3% requests", ofRequests(0.03)],
  ["deny at most 100 % of requests", ofRequests(1)],
  ["deny at most 1 key in 1,000", ofKeys(0.001)],
  ["deny at most 1 key in 1000", ofKeys(0.001)],
  ["deny at most one key in a thousand", ofKeys(0.001)],
  ["deny at most 1 in 1_000 keys", ofKeys(0.001)],
  ["block at most 1 of 1'000 customers", ofKeys(0.001)],
  ["deny at most 3 out of 10k clients", ofKeys(0.000_3)],
  ["don't deny more than 0.1 % of keys", ofKeys(0.001)],
  ["at most 2 % of users are denied", ofKeys(0.02)],
  ["deny at most 1/1000 of keys", ofKeys(0.001)],
  ["never let one key exceed 20 requests in a second", ofKey(20)],
  ["Never let any client exceed 20 req/s", ofKey(20)],
  ["limit each key to 20 rps", ofKey(20)],
  ["at most 1,000 requests per minute per key", ofKey(1_000, 60_000)],
  ["no key may send more than 100 requests within 10 seconds", ofKey(100, 10_000)],
  ["do not allow one IP address to make more than 5 requests every 2 minutes", ofKey(5, 120_000)],
  ["every customer at most 10k requests a day", ofKey(10_000, 86_400_000)],
  ["protect the origin at 500 requests per second", ofOrigin(500)],
  ["protect my backend at 1,500 rps", ofOrigin(1_500)],
  ["never let the origin receive more than 500 requests/s", ofOrigin(500)],
  ["at most 1.5k requests per second reach the origin", ofOrigin(1_500)],
  ["keep the origin below 500 requests in any second", ofOrigin(500)],
];

describe("parseGoal", () => {
  it.each(goals)('the goal "%s" is understood', (text, goal) => {
    expect(parseGoal(text)).toEqual(goal);
  });

  it.each([
    "",
    "make it fast",
    "allow at most 5 % of requests",
    "deny at least 5 % of requests",
    "deny more than 5 % of requests",
    "let one key exceed 20 requests in a second",
    "deny at most 5 requests",
    "at most 20 requests per second",
    "deny at most 0.1 % of parsecs",
    "never let one key exceed 20 requests in a parsec",
    "deny at most 1.2.3 % of requests",
  ])('the text "%s" is rejected with the goals that are accepted', (text) => {
    expect(() => parseGoal(text)).toThrow(
      `goal: expected "deny at most 0.1 % of requests", "deny at most 1 key in 1,000", "never let one key exceed 20 requests in a second" or "protect the origin at 500 requests per second", got ${JSON.stringify(text)}`,
    );
  });

  it.each([
    ["deny at most 101 % of requests", "a share above 0 % and at most 100 %"],
    ["deny at most 3 keys in 2", "a share above 0 % and at most 100 %"],
    ["deny at most -1 % of requests", "a share above 0 % and at most 100 %"],
    ["deny at most 0 % of requests", "no recording can prove that a limit denies nothing"],
    ["deny at most 1 key in 0", "a share above 0 % and at most 100 %"],
    ["never let one key exceed 99999999999999999999 requests in a second", "at most 999,999,999,999 requests, got"],
    ["never let one key exceed 0 requests in a second", "a whole number of at least 1 request, got"],
    ["never let one key exceed 2.5 requests in a second", "a whole number of at least 1 request, got"],
    ["protect the origin at -500 requests per second", "a whole number of at least 1 request, got"],
    ["protect the origin at 500 requests per minute", "expected requests per second"],
  ])('the impossible goal "%s" is rejected with the amounts that are accepted', (text, message) => {
    expect(() => parseGoal(text)).toThrow(message);
    expect(() => parseGoal(text)).toThrow(JSON.stringify(text));
  });

  it("parsing the text of a goal gives the same goal", () => {
    for (const [, goal] of goals) expect(parseGoal(goalText(goal))).toEqual(goal);
    const written = [ofRequests(0.001), ofKeys(0.001), ofKeys(0.02), ofKeys(0.3), ofKey(1, 3_600_000)];
    expect(written.map(goalText)).toEqual([
      "deny at most 0.1 % of requests",
      "deny at most 1 key in 1,000",
      "deny at most 1 key in 50",
      "deny at most 30 % of keys",
      "never let one key exceed 1 request in an hour",
    ]);
  });
});
