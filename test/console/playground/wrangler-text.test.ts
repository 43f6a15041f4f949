/** Limits of the playground as lines of wrangler.toml: the Worker reads the same limits from them. */
import { expect, test } from "vitest";
import { presets } from "../../../src/console/playground/model/presets.ts";
import { wranglerText } from "../../../src/console/playground/model/wrangler-text.ts";
import { type LimitInput, parseLimits } from "../../../src/strategies/index.ts";
import { configOf } from "../../policy/parsed.ts";
import { readConfiguration } from "../../docs/configuration-blocks.ts";
import { forAll } from "../../for-all.ts";
import { scenarioOf } from "./runs.ts";
import { anyLimit } from "./scenarios.ts";

/** The variables. Their values differ from JSON in the names of fields and in last commas. */
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

test("the configuration reads the same list of limits", () => {
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

test("several limits are written one by line", () => {
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

test("the shipped wrangler.toml with the text below [vars] passes the check of the configuration", () => {
  for (const { query } of presets) {
    const { limits } = scenarioOf(query);
    const { vars, problems } = readConfiguration({ text: wranglerText(limits) });
    expect(problems).toEqual([]);
    expect(configOf(vars).policies[0]?.limits).toEqual(parseLimits(limits));
  }
});
