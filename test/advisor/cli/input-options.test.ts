/** The options of commands that replay traffic. */
import { describe, expect, it } from "vitest";
import { rejectSlots, writtenLimitSets } from "../../../src/advisor/cli/limit-sets.ts";
import { trafficChoice } from "../../../src/advisor/cli/input-options.ts";

describe("the choice of traffic", () => {
  it("the key of a log is ip, unless an option names another key", () => {
    expect(trafficChoice({ log: ["a.log"] })).toMatchObject({
      kind: "log",
      key: { parts: ["ip"] },
    });
  });

  it("a policy without a URL is read from the local server", () => {
    expect(trafficChoice({ policy: "api" })).toEqual({
      kind: "samples",
      url: "http://localhost:8787",
      policy: "api",
    });
  });

  it.each([
    [{}, /^--log is missing: expected a file, or - for standard input; or --url and --policy/],
    [{ url: "http://localhost:8787" }, /^--policy is missing: expected the name of a policy/],
    [{ log: ["a"], url: "x" }, /^--url does not apply to --log\.$/],
    [{ log: ["a"], token: "x" }, /^--token does not apply to --log\.$/],
    [{ policy: "api", key: ["ip"] }, /^--key does not apply to samples/],
    [{ log: ["a", "a"] }, /^--log: expected a once, got it twice$/],
    [{ log: ["a"], key: ["jwt:sub"] }, /^--key: jwt:sub: a log has no verified tokens/],
    [{ policy: "api", match: ["/a"] }, /^--match does not apply to samples/],
    [{ log: ["a"], match: ["POST /a /b"] }, /^--match: expected a method, a path .*"POST \/a \/b"$/],
    [{ log: ["a"], match: ["/a{2}"] }, /^--match: expected a path pattern such as .*"\/a\{2\}"$/],
    [{ log: ["a"], status: "9xx" }, /^--status: expected statuses such as .*, got "9xx"$/],
    [{ log: ["a"], "trusted-proxies": "0" }, /^--trusted-proxies: expected an integer from 1/],
    [{ log: ["a"], key: ["path"], "address-field": "c" }, /^--address-field applies to .* ip:/],
    [{ log: ["a"], time: " " }, /^--time: expected the name of a field, got " "$/],
  ])("the options %o are rejected: %s", (values, message) => {
    expect(() => trafficChoice(values)).toThrow(message);
  });
});

describe("the sets of limits", () => {
  it("each limit option defines a set of limits, in notation or in JSON, with the default strategy", () => {
    const sets = writtenLimitSets({
      limits: ["100/minute; 10/second", '[{"limit":5,"window":"1m","strategy":"token-bucket"}]'],
      strategy: "sliding-log",
    });
    expect(sets.map(({ label, limits }) => [label, ...limits.map((each) => [each.limit, each.strategy])])).toEqual([
      ["A", [100, "sliding-log"], [10, "sliding-log"]],
      ["B", [5, "token-bucket"]],
    ]);
  });

  it.each([
    [{}, /^--limits is missing: expected limits such as/],
    [{ limits: ["100"] }, /^--limits: expected limits such as "10\/minute".*, got "100"/],
    [{ limits: ["[1"] }, /^--limits: expected JSON such as .*, got \[1$/],
    [{ limits: ['{"limit":1}'] }, /^--limits\.window is missing: expected a duration/],
    [{ limits: ["1/s"], strategy: "log" }, /^--strategy: expected one of .*, got "log"$/],
    [{ limits: Array.from({ length: 27 }, () => "1/s") }, /expected at most 26 sets, got 27$/],
  ])("the options %o are rejected: %s", (values, message) => {
    expect(() => writtenLimitSets(values)).toThrow(message);
  });

  it("concurrency is rejected for a log, which has no durations", () => {
    const sets = writtenLimitSets({ limits: ["10/minute"], strategy: "concurrency" });
    expect(() => rejectSlots(sets)).toThrow(
      /^--limits: the strategy "concurrency" counts requests that run, and a log has no durations/,
    );
  });
});
