import { describe, expect, it } from "vitest";
import { parseConfig } from "../../src/policy/vars/config.ts";
import { inEffectMessage, problemsMessage, startMessage } from "../../src/cli/start-messages.ts";
import { readConfiguration } from "../docs/configuration-blocks.ts";
import { pageBlock } from "../docs/page-block.ts";
import type { LocalSetup } from "../../src/cli/local-setup.ts";

const secret = "a secret of thirty-two characters or more";

function setupWith(vars: Record<string, unknown>, other: Partial<LocalSetup> = {}): LocalSetup {
  const variables = { KEY_SECRET: secret, ...vars };
  return {
    config: parseConfig(variables),
    problems: [],
    lines: [],
    warnings: [],
    wrangler: {} as LocalSetup["wrangler"],
    variables,
    secretNames: ["KEY_SECRET", "CHECK_TOKENS", "ORIGIN_SECRET"],
    hasDemoOrigin: false,
    hasDemoLimits: false,
    hasConsole: false,
    ...other,
  };
}
const named = (count: number): unknown[] =>
  Array.from({ length: count }, (_, index) => ({ name: `p${index}`, limits: `${index + 1}/s` }));

const line = (setup: LocalSetup, previous = setup): string => inEffectMessage(setup, previous);

describe("the message after an edit", () => {
  it("the message after an edit names each limit of each policy, and marks dry runs", () => {
    const policies = [
      { name: "login", limits: ["5/minute", "20/day"] },
      { name: "all", limits: "100/hour", dryRun: true },
    ];
    expect(line(setupWith({ ORIGIN: "https://api.example.com", POLICIES: policies }))).toBe(
      "In effect now: login 5 per 1m and 20 per 1d; all 100 per 1h (dry run), in front of https://api.example.com.",
    );
  });

  it("the message after an edit equals the one in the first tutorial", () => {
    const page = "tutorials/first-limit";
    const { vars } = readConfiguration({ text: pageBlock(page, "toml", 'KEY = "ip"') });
    expect(line(setupWith(vars))).toBe(pageBlock(page, "text figure", "In effect now").trim());
  });

  it("the message after an edit names at most five policies", () => {
    const texts = [5, 6, 9].map((count) => line(setupWith({ ORIGIN: "route", POLICIES: named(count) })));
    expect(texts.map((text) => /p4 5 per 1s(.*)\.$/.exec(text)?.[1])).toEqual([
      ", in front of the origin of the route",
      "; and 1 more, in front of the origin of the route",
      "; and 4 more, in front of the origin of the route",
    ]);
  });

  it("the message after an edit says when demo limits or the demo origin are in effect", () => {
    const demo = { hasDemoOrigin: true, hasDemoLimits: true };
    expect(line(setupWith({ ORIGIN: "http://127.0.0.1:9", LIMITS: "5/10s" }, demo))).toBe(
      "In effect now: the demo limits: default 5 per 10s, in front of the demo origin.",
    );
  });

  it("the message after an edit names changed secrets without their values", () => {
    const previous = setupWith({ ORIGIN: "route", LIMITS: "5/s", CHECK_TOKENS: "a".repeat(20) });
    const setup = setupWith({
      ORIGIN: "route",
      LIMITS: "6/s",
      CHECK_TOKENS: "b".repeat(20),
      ORIGIN_SECRET: "c",
    });
    expect(line(setup, previous)).toBe(
      "In effect now: default 6 per 1s, in front of the origin of the route; CHECK_TOKENS changed.",
    );
  });

  it("without a valid configuration, the message after an edit is empty", () => {
    expect(line({ ...setupWith({ LIMITS: "1/s" }), config: null })).toBe("");
  });
});

it("the problems of an edit are printed on separate lines below an introductory line", () => {
  expect(problemsMessage(["a", "b"], true)).toBe(
    "The configuration has problems, so the previous one stays in effect:\n  a\n  b",
  );
  expect(problemsMessage(["a"])).toBe("The configuration has problems:\n  a");
});

it("without a valid configuration, the banner says that every request gets 500 and how to stop", () => {
  expect(startMessage("http://localhost:1", { ...setupWith({ LIMITS: "1/s" }), config: null })).toMatch(
    /^\nHeadgate is running at http:\/\/localhost:1, but answers every request with 500 [^]+Stop with Ctrl-C\.\n$/,
  );
});

it("the banner lists up to five runtime rules of earlier runs, counts the others, and says how to delete them", () => {
  const rules = Array.from({ length: 7 }, (_, index) => ({
    policy: "default",
    kind: index === 0 ? "block" : "limits",
    keyId: index === 0 ? "9oGwCzCPQ3iqMZMVJpwGzqrMAcPoqYEDoZnhXhPdKM0" : null,
    expiresAt: index === 0 ? "2026-11-28T12:00:00.000Z" : null,
  }));
  const message = startMessage("http://localhost:1", setupWith({ LIMITS: "1/s" }), rules);
  expect(message).toContain(
    [
      "\n  rules          7 runtime rules of earlier runs in effect; delete them in the console or with the admin API:",
      "                 default: block for the key 9oGwCzCP…, until 2026-11-28T12:00:00.000Z",
      ...Array.from({ length: 4 }, () => "                 default: limits for all keys, without an end"),
      "                 and 2 more\n",
    ].join("\n"),
  );
  expect(startMessage("http://localhost:1", setupWith({ LIMITS: "1/s" }))).not.toContain("rules");
});

it("the banner shows the URL and a token of the admin API only when ADMIN_TOKENS is set", () => {
  const vars = { LIMITS: "1/s", ADMIN_PATH: "/ops", ADMIN_TOKENS: "a-token-of-alice" };
  expect(startMessage("http://localhost:1", setupWith(vars))).toContain(
    "\n  admin API      http://localhost:1/ops/api with the token a-token-of-alice\n",
  );
  expect(startMessage("http://localhost:1", setupWith({ LIMITS: "1/s" }))).not.toContain("admin");
});

it.for([
  ["1/1", "every key; a deployment without SAMPLE records 1 key in 64"],
  ["1/8", "1 key in 8; a deployment without SAMPLE records 1 key in 64"],
  ["off", "off"],
])("the banner states which keys SAMPLE = %j records", ([SAMPLE, text]) => {
  const vars = { LIMITS: "1/s", SAMPLE };
  const withAdmin = { ...vars, ADMIN_TOKENS: "a-token-of-alice" };
  expect(startMessage("http://localhost:1", setupWith(withAdmin))).toContain(`\n  traffic sample ${text}\n`);
  expect(startMessage("http://localhost:1", setupWith(vars))).not.toContain("traffic sample");
});

it("the banner shows a link that opens the console, with the token that has the most rights", () => {
  const ADMIN_TOKENS = [{ token: "a-token-of-grafana", may: ["read"] }, "a+token&of/alice#1"];
  const vars = { LIMITS: "1/s", ADMIN_PATH: "/ops", ADMIN_HOST: "admin.localhost", ADMIN_TOKENS };
  const message = startMessage("http://localhost:8788", setupWith(vars, { hasConsole: true }));
  expect(message).toContain(
    [
      "\n  console        http://admin.localhost:8788/ops/#token=a%2Btoken%26of%2Falice%231",
      "  playground     http://admin.localhost:8788/ops/playground",
      "  admin API      http://localhost:8788/ops/api with the token of the console\n",
    ].join("\n"),
  );
});
