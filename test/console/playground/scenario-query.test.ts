/**
 * Scenarios as the query of a URL, and their limits as lines of wrangler.toml, which the Worker reads as the same
 * limits.
 */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { presets } from "../../../src/console/playground/model/presets.ts";
import { referenceExamples } from "./reference-examples.ts";
import { formatScenario, parseScenario, wranglerText } from "../../../src/console/playground/model/scenario-query.ts";
import { defaultScenario } from "../../../src/console/playground/model/scenario.ts";
import { describeProblem, type LimitInput, parseLimits, strategies } from "../../../src/strategies/index.ts";
import { readConfiguration } from "../../docs/configuration-blocks.ts";
import { forAll } from "../../for-all.ts";
import { configOf } from "../../policy/parsed.ts";
import { answersOf, scenarioOf } from "./runs.ts";
import { anyLimit, anyScenario } from "./scenarios.ts";

const linesOf = (query: string): string[] => parseScenario(query).problems.map(describeProblem);

describe("the query of a scenario", () => {
  test(
    "reading a written scenario gives the same scenario",
    forAll([anyScenario], (scenario) => {
      expect(parseScenario(formatScenario(scenario))).toEqual({ scenario, problems: [] });
    }),
  );

  test("the query of a scenario is readable and omits defaults", () => {
    const query =
      "limit=100/1m+fixed-window+align=clock&limit=10/1s&traffic=bursts&size=200&within=2s&first=59s&every=5m";
    expect(formatScenario(scenarioOf(query))).toBe(query);
    expect(formatScenario(defaultScenario)).toBe("limit=100/1m&traffic=steady&rate=120/1m");
  });

  test("the smallest rate and skew are written as decimals that can be read back", () => {
    const query = "limit=1/1m&traffic=steady&rate=0.00000000000012345678/1s&skew=0.0000001";
    expect(formatScenario(scenarioOf(query))).toBe(query);
  });

  test.each([
    "limit=1/1m&traffic=times&at=0,315360000",
    "limit=1/3650d&start=3899-12-31T23:59:59Z&traffic=steady&rate=2/3650d&length=3650d&retry=obey&attempts=20",
  ])("the latest requests of %s are run", (query) => {
    expect(answersOf(scenarioOf(query)).at(-1)?.kind).toBe("done");
  });

  test("an empty query gives the default scenario", () => {
    expect(parseScenario("")).toEqual({ scenario: defaultScenario, problems: [] });
  });

  test("one text may contain several limits, and percent-encoding a query does not change its scenario", () => {
    const { limits } = scenarioOf("limit=100%2Fminute%3B%2010%2Fsecond%20token-bucket");
    expect(limits).toEqual([
      { limit: 100, window: "minute", strategy: "token-bucket" },
      { limit: 10, window: "second", strategy: "token-bucket" },
    ]);
  });

  test.each([
    ["limit=fast", 'limit: expected limits such as "10/minute"', 'got "fast"'],
    ["limit=0/1m", "limit[0].limit: expected an integer from 1", "got 0"],
    [
      "limit=10/1m&limit=5/1s+burst=3",
      "limit[1].burst: expected the strategy token-bucket or leaky-bucket before burst=",
      "got 3",
    ],
    ["limit=10/1m+fixd-window", "limit: expected one of the strategies", "mean fixed-window?"],
    ["limit=10/1m+fixed", "limit: expected one of the strategies", 'got "10/1m fixed"'],
    [
      "limit=10+per+2+minutes+fixed+window",
      "limit: expected one of the strategies",
      'got "10 per 2 minutes fixed window"',
    ],
    ["limit=ten/minute", 'limit: expected limits such as "10/minute"', 'got "ten/minute"'],
    ["limit=10/1s+sliding-log;+5/1m", "limit: expected each limit with a strategy on a line", "got"],
    ["traffic=flood", 'traffic: expected one of "steady"', 'got "flood"'],
    ["rate=soon", 'rate: expected requests per time such as "120/1m"', 'got "soon"'],
    ["rate=0/1m", "rate: expected requests per time", 'got "0/1m"'],
    ["traffic=bursts&size=0", "size: expected an integer from 1 to 250000", 'got "0"'],
    ["traffic=bursts&within=-1s", "within: expected a duration from 0", 'got "-1s"'],
    ["traffic=times&at=1,x", "at: expected at most 2000 requests by their seconds", 'got "1,x"'],
    ["retry=polite", 'retry: expected one of "none", "ignore"', 'got "polite"'],
    ["traffic=times&at=999999999999", "at: expected at most 2000 requests", 'got "999999999999"'],
    ["start=yesterday", "start: expected a time from 1970 to 3899", 'got "yesterday"'],
    ["start=2026-02-30", "start: expected a time from 1970 to 3899", 'got "2026-02-30"'],
    ["start=9999-12-31", "start: expected a time from 1970 to 3899", 'got "9999-12-31"'],
    ["rate=1000000/1s&length=1h", "rate: expected at most 250000 requests", "got 3600000000"],
    ["tarffic=steady", "tarffic: expected one of the fields", "did you mean traffic?"],
  ])("the query %s is reported with its field, its value and what is accepted", (query, start, end) => {
    const [line, ...others] = linesOf(query);
    expect(others).toEqual([]);
    expect(line).toContain(start);
    expect(line).toContain(end);
  });

  test("a query field with a problem gets its default, and the other fields keep their values", () => {
    const { scenario } = parseScenario("limit=7/1s&limit=x&keys=many&cost=3");
    expect(scenario).toEqual({ ...defaultScenario, limits: [{ limit: 7, window: "1s" }], cost: 3 });
  });

  test("the caller may add its own fields to the query", () => {
    expect(parseScenario("lane=sliding-log", ["lane"]).problems).toEqual([]);
  });

  const pieces =
    "limit= &traffic= &at= &rate= &start= &size= steady times 100/1m burst= % %zz + ; 1e99 -1 NaN __proto__=1 0x5,1 📈 limit";
  const piece = fc.constantFrom(...pieces.split(" "));
  test(
    "any text gives a scenario that can be written and read again",
    forAll(
      [
        fc.oneof(
          fc.string(),
          fc.array(piece).map((all) => all.join("")),
        ),
      ],
      (query) => {
        const { scenario } = parseScenario(query);
        expect(parseScenario(formatScenario(scenario))).toEqual({ scenario, problems: [] });
      },
    ),
  );

  test("a start time with an offset is read in that time zone, even if its plus sign became a space", () => {
    const noon = Date.UTC(2026, 0, 5, 12);
    for (const text of ["2026-01-05T13:00:00+01:00", "2026-01-05T13:00:00%2B01:00", "2026-01-05 12:00"])
      expect(scenarioOf(`start=${text}`).startMs).toBe(noon);
  });
});

describe("presets", () => {
  test("each preset can be run and has its own name", () => {
    for (const { query } of presets) {
      const answers = answersOf(scenarioOf(query));
      expect(answers.at(-1)?.kind).toBe("done");
    }
    expect(new Set(presets.map(({ id }) => id)).size).toBe(presets.length);
  });

  test("writing each preset as a query gives the preset's own query", () => {
    for (const query of [...presets.map((each) => each.query), ...Object.values(referenceExamples)])
      expect(formatScenario(scenarioOf(query))).toBe(query);
  });

  test("the documentation has an example for every strategy", () => {
    expect(Object.keys(referenceExamples)).toEqual(expect.arrayContaining([...strategies.keys()]));
    for (const strategy of strategies.keys()) {
      const { limits } = scenarioOf(referenceExamples[strategy] ?? "");
      expect(limits[0]?.strategy).toBe(strategy);
    }
  });
});

/** The variables of the written lines. In them, field names and trailing commas differ from JSON. */
function variablesOf(toml: string): Record<string, unknown> {
  const [, ...fields] = toml.trim().split(/\n(?=\w+ = |\[)/);
  return Object.fromEntries(
    fields.map((field) => {
      const [, name = "", value = ""] = /^(\w+) = ([\s\S]*)$/.exec(field) ?? [];
      const json = value.replace(/(\w+) = /g, '"$1": ').replace(/,(\s*[\]}])/g, "$1");
      return [name, JSON.parse(json) as unknown];
    }),
  );
}

const limitsOf = (limits: readonly LimitInput[]) => configOf(variablesOf(wranglerText(limits))).policies[0]?.limits;

test(
  "the configuration accepts the text of any limit and reads the same limit from it",
  forAll([anyLimit], (limit) => {
    expect(limitsOf([limit])).toEqual(parseLimits([limit]));
  }),
);

test("the Worker's configuration reads the same limits from the written lines", () => {
  const { limits } = scenarioOf(
    "limit=100/1m&limit=10/1s+token-bucket+burst=30&limit=1000/month&limit=5/1s+sliding-log+name=burst",
  );
  expect(limitsOf(limits)).toEqual(parseLimits(limits));
});

test("a single limit is written in the short form", () => {
  const lines = (...limits: LimitInput[]) => wranglerText(limits).split("\n").slice(1);
  expect(lines({ limit: 100, window: "1m" })).toEqual(['LIMITS = "100/1m"', 'STRATEGY = "sliding-window-counter"', ""]);
  expect(lines({ limit: 100, window: "1m", strategy: "sliding-log" })).toEqual([
    'LIMITS = "100/1m"',
    'STRATEGY = "sliding-log"',
    "",
  ]);
});

test("several limits are written one per line", () => {
  const limits = scenarioOf("limit=100/1m&limit=10/1s+token-bucket+burst=30").limits;
  expect(wranglerText(limits)).toBe(
    `# Below [vars] in wrangler.toml, in place of LIMITS, STRATEGY and POLICIES:
LIMITS = [
  "100/1m",
  { limit = 10, window = "1s", strategy = "token-bucket", burst = 30 },
]
STRATEGY = "sliding-window-counter"
`,
  );
});

test("the shipped wrangler.toml passes the check of the configuration with the written lines below [vars]", () => {
  for (const { query } of presets) {
    const { limits } = scenarioOf(query);
    const { vars, problems } = readConfiguration({ text: wranglerText(limits) });
    expect(problems).toEqual([]);
    expect(configOf(vars).policies[0]?.limits).toEqual(parseLimits(limits));
  }
});
