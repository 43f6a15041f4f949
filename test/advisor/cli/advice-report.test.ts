/** The reports of `npm run advise` as text and as JSON, and the recommended policy as TOML. */
import { describe, expect, it } from "vitest";
import { adviceFacts, adviceLines, policyName, policyToml } from "../../../src/advisor/cli/advice-report.ts";
import { commonFacts } from "../../../src/advisor/cli/input.ts";
import { deniedKeyTable } from "../../../src/advisor/cli/report-text.ts";
import { readRequestPattern } from "../../../src/advisor/log/log-filter.ts";
import { parseGoal } from "../../../src/advisor/search/goal.ts";
import { adviseAndCheck, adviseWhole } from "../../../src/advisor/search/second-half.ts";
import { startMs, timelinesFrom, type TrafficShape } from "../search/traffic.ts";

const hourMs = 3_600_000;

/** Each key sends requests in the first half, in the second half, or in both. */
const halves = (keys: number, periodMs: number, requestsOf: (key: number, half: number) => number): TrafficShape => ({
  keys,
  periodMs,
  arrivals: (random, key, addAt) => {
    for (const half of [0, 1]) {
      const beginMs = ((half + 0.9 * random()) * periodMs) / 2;
      for (let n = 0; n < requestsOf(key, half); n++) addAt(beginMs + 5_000 * random());
    }
  },
});
const steady = halves(500, 8 * hourMs, (_, half) => 2 + half);
/**
 * All keys send requests in each half, each in its own second. In the second half, all of them also send one burst
 * together.
 */
const lateBurst: TrafficShape = {
  keys: 1_000,
  periodMs: 8 * hourMs,
  arrivals: (_, key, addAt) => {
    addAt(key * 10_000);
    addAt(4 * hourMs + key * 10_000);
    for (let n = 0; n < 5; n++) addAt(6 * hourMs + key / 2);
  },
};
const bursts: TrafficShape = {
  ...lateBurst,
  arrivals: (_, key, addAt) => {
    for (const half of [0, 1]) addAt((4 * half + 1) * hourMs + key / 2);
  },
};

function reported(shape: TrafficShape, goal: string, steps = adviseAndCheck) {
  const timelines = timelinesFrom(shape, 1);
  const running = steps(timelines, parseGoal(goal));
  let step = running.next();
  while (step.done !== true) step = running.next();
  const { value: checked } = step;
  const facts = commonFacts(timelines);
  const traffic = { lines: [], facts, keyParts: ["ip"], keyFields: [], filter: null };
  return {
    kind: checked.advice.recommendation.kind,
    text: adviceLines(traffic, checked, "api").join(" ").replaceAll(/\s+/g, " "),
    facts: adviceFacts(traffic, checked, "api"),
  };
}

describe("the part of a log that a limit is chosen from", () => {
  it("without --whole, JSON and text state the period, the requests and the keys of the first half, on which all results are based", () => {
    const { text, facts } = reported(steady, "deny at most 2 % of keys");
    expect(facts).toMatchObject({
      traffic: { requests: 2_500, keys: 500, to: "2026-01-05T08:00:00.000Z" },
      chosenFrom: {
        from: "2026-01-05T00:00:00.000Z",
        to: "2026-01-05T04:00:00.000Z",
        requests: 1_000,
        keys: 500,
      },
      secondHalf: { from: "2026-01-05T04:00:00.000Z", requests: 1_500, keys: 500 },
    });
    expect(text).toContain(
      "Candidates: what they deny in the first half of the log (1,000 requests of 500 keys), with 95 % confidence in parentheses",
    );
  });

  it("with --whole, all results are based on the whole log, and the report does not explain the halves", () => {
    const { text, facts } = reported(steady, "deny at most 2 % of keys", adviseWhole);
    expect(facts).toMatchObject({
      chosenFrom: {
        from: new Date(startMs).toISOString(),
        to: "2026-01-05T08:00:00.000Z",
        requests: 2_500,
        keys: 500,
      },
      secondHalf: null,
    });
    expect(text).toContain("Candidates: what they deny, with 95 % confidence in parentheses");
    expect(text).not.toContain("half");
  });

  it.each([
    [
      "a log of an hour is too short",
      halves(1_000, hourMs, () => 2),
      "deny at most 2 % of keys",
      "a check on its second half needs at least an hour and 500 requests in each half.",
    ],
    [
      "a half with 400 requests is too short",
      halves(1_000, 8 * hourMs, (key, half) => (half === 1 || key < 400 ? 1 : 0)),
      "deny at most 2 % of keys",
      "a check on its second half needs at least an hour and 500 requests in each half.",
    ],
    [
      "250 keys do not show the goal",
      halves(500, 8 * hourMs, (key, half) => (key % 2 === half ? 8 : 0)),
      "deny at most 1 % of keys",
      "its first half alone does not show that a limit for each key meets the goal, so no half is left for a check.",
    ],
    [
      "the first half needs no limit",
      lateBurst,
      "protect the origin at 1,000 requests per second",
      "its first half alone needs no limit.",
    ],
    [
      "a limit for all keys is the best for the first half",
      bursts,
      "protect the origin at 200 requests per second",
      "its first half alone leads to one limit for all keys, and only limits for each key are checked on the second half.",
    ],
  ])("the whole log is used when %s, and the text says so", (_, shape, goal, reason) => {
    const { text, facts } = reported(shape, goal);
    expect(text).toContain(`Chosen from the whole log: ${reason}`);
    expect(facts).toMatchObject({ secondHalf: null });
  });

  it.each([
    ["without a need for a limit", "protect the origin at 5,000 requests per second", "unneeded"],
    ["with too little data", "deny at most 0.01 % of keys", "wait"],
    ["for the rate of a key", "never let one key exceed 5 requests in a second", "recommended"],
  ])("the report does not mention a check %s", (_, goal, kind) => {
    const result = reported(
      halves(1_000, hourMs, () => 2),
      goal,
    );
    expect(result.kind).toBe(kind);
    expect(result.text).not.toContain("Chosen from");
  });
});

it("the note about limits that deny nothing appears only for goals about denials", () => {
  const note = "A limit that denies nothing here may still not be met";
  const few = halves(300, hourMs, () => 2);
  expect(reported(few, "deny at most 1 % of keys").text).toContain(note);
  for (const goal of [
    "never let one key exceed 5 requests in a second",
    "protect the origin at 2 requests per second",
  ]) {
    const { text } = reported(few, goal);
    expect(text).toContain("Candidates");
    expect(text).not.toContain(note);
  }
});

const policy = {
  name: "api",
  keyParts: ["ip"],
  keyFields: [],
  written: [{ limit: 100, window: "1m", strategy: "sliding-log" }],
  strategy: "sliding-log",
};

describe("a policy as TOML", () => {
  it("the report writes limits without options in notation", () => {
    const written = [...policy.written, { limit: 20, window: "10s", strategy: "sliding-log" }];
    expect(policyToml({ ...policy, written })).toEqual([
      "[[vars.POLICIES]]",
      'name = "api"',
      'key = ["ip"]',
      'strategy = "sliding-log"',
      'limits = "100/minute; 20/10s"',
    ]);
  });

  it("the report writes limits with options as tables", () => {
    const written = [{ limit: 10, window: "1s", strategy: "token-bucket", burst: 30 }];
    expect(policyToml({ ...policy, written, strategy: "token-bucket" }).slice(-2)).toEqual([
      'strategy = "token-bucket"',
      'limits = [{ limit = 10, window = "1s", burst = 30 }]',
    ]);
  });

  it.each([
    ["http_x_api_key", "header:x-api-key"],
    ["request.headers.X-Api-Key", "header:x-api-key"],
    ["user.id", "header:user-id"],
  ])("the field %s becomes %s with a comment that asks for the key part", (field, part) => {
    const lines = policyToml({ ...policy, keyParts: ["ip", field], keyFields: [field] });
    expect(lines[0]).toBe(
      `# "${field}" is a field of the log and no key part: replace "${part}" with the part that has it.`,
    );
    expect(lines).toContain(`key = ${JSON.stringify(["ip", part])}`);
  });

  it("a filter of requests becomes the match of the policy, and comments state the parts that a match cannot express", () => {
    const filterOf = (texts: readonly string[], status: string | null) => ({
      match: texts.map((text) => {
        const pattern = readRequestPattern(text);
        if ("accepted" in pattern) throw new Error(pattern.accepted);
        return pattern;
      }),
      status,
    });
    const one = policyToml({ ...policy, filter: filterOf(["post,PUT /login"], "401") });
    expect(one[0]).toBe("# Only the status 401 was read: this policy counts all requests.");
    expect(one).toContain('match = { methods = ["POST","PUT"], path = "/login" }');
    const two = policyToml({ ...policy, filter: filterOf(["POST", "/signup/*"], null) });
    expect(two[0]).toBe("# Only the requests POST or /signup/* were read: write a policy for each.");
    expect(two.join("")).not.toContain("match =");
  });

  it("a policy with an invalid name is rejected", () => {
    expect(() => policyName("My API")).toThrow(/^--name: expected a name of 1 to 64 .*, got "My API"$/);
  });
});

it("the table of denied keys has the whole id of a key within others, and shortens other long texts", () => {
  const row = { requests: 2, shareOfRequests: 1, denied: 1, longestDeniedMs: 0 };
  const id = `${"a".repeat(43)}.${"b".repeat(43)}`;
  expect(deniedKeyTable([{ key: id, ...row }]).join()).toContain(id);
  expect(deniedKeyTable([{ key: "c".repeat(87), ...row }]).join()).toMatch(/ c{28}…c{14} /);
});
