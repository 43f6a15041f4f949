import { describe, expect, it } from "vitest";
import { deploymentProblems, parseConfig } from "../../../src/policy/vars/config.ts";
import { variableNames } from "../../../src/policy/vars/known-variables.ts";
import { type Variables, whole as shortest } from "../parsed.ts";

const whole = { ...shortest, KEY_SECRET: "a secret of the tests with 41 characters." };

const linesOf = (variables: Variables): string[] =>
  deploymentProblems({ ...whole, ...variables }).map(({ text }) => text);

/** The names of all variables that parseConfig reads. */
function namesRead(variables: Variables): Set<string> {
  const read = new Set<string>();
  const spy = new Proxy(variables, {
    get(target, name, receiver): unknown {
      read.add(String(name));
      return Reflect.get(target, name, receiver);
    },
  });
  parseConfig(spy);
  deploymentProblems(spy);
  return read;
}

describe("the table of variables", () => {
  it("the list of known variables equals the variables that the configuration reads", () => {
    const read = namesRead({ ...whole, LIMITS: "", POLICIES: [{ name: "a", limits: "1/s" }] });
    expect([...read].toSorted()).toEqual([...variableNames].toSorted());
  });
});

describe("an unknown variable", () => {
  it.for<[string, string]>([
    ["STRATEGEY", "STRATEGY"],
    ["LEGACY_HEADER", "LEGACY_HEADERS"],
    ["LIMTS", "LIMITS"],
    ["CORS_ORIGIN", "CORS_ORIGINS"],
    ["POLICY", "POLICIES"],
    ["KEYSECRET", "KEY_SECRET"],
    ["limits", "LIMITS"],
    ["Check-Token", "CHECK_TOKENS"],
    ["ORIGINS", "ORIGIN"],
    ["JWT_ISSEUR", "JWT_ISSUER"],
    ["EXTRA_VAR", "EXTRA_VARS"],
  ])(
    "the unknown variable %s is reported with the suggestion %s, and the configuration is valid",
    ([name, suggestion]) => {
      const line = `unknown variable ${name}; did you mean ${suggestion}?`;
      expect(linesOf({ [name]: "5/minute" })).toEqual([line]);
      expect(() => parseConfig({ ...whole, [name]: "5/minute" })).not.toThrow();
    },
  );

  it.for<[string, string]>([
    ["TRUSTED_PROXIES", "trustedProxies"],
    ["TRUSTED_PROXY", "trustedProxies"],
    ["COUNT", "count"],
    ["BAN", "ban"],
    ["ON_ERROR", "onError"],
    ["ONERROR", "onError"],
    ["CONSISTENCY", "consistency"],
    ["OBJECTS", "objects"],
    ["OVERRIDES", "overrides"],
    ["MATCH", "match"],
  ])("the variable %s is reported as the field %s of a policy", ([name, field]) => {
    expect(linesOf({ [name]: 1 })).toEqual([
      `unknown variable ${name}; ${field} is a field of a policy: write the policy as an entry of [[vars.POLICIES]]`,
    ]);
  });

  it("an unknown variable with the name of a field of match or of a limit is reported with the place of that field", () => {
    expect(linesOf({ METHODS: "POST" })).toEqual([
      "unknown variable METHODS; methods is a field of match, in a policy under [[vars.POLICIES]]",
    ]);
    expect(linesOf({ BURST: 20 })).toEqual([
      "unknown variable BURST; burst is a field of a limit, in LIMITS or in the limits of a policy",
    ]);
  });

  it("an unknown variable without a similar known name is reported with the advice to list it in EXTRA_VARS", () => {
    expect(linesOf({ REGION: "eu" })).toEqual([
      "unknown variable REGION; if it is your own, add its name to EXTRA_VARS",
    ]);
    const long = "X".repeat(5_000);
    expect(linesOf({ [long]: "" })).toEqual([
      `unknown variable ${long}; if it is your own, add its name to EXTRA_VARS`,
    ]);
  });

  it("the value of an unknown variable is not quoted, since it may be a misspelt secret", () => {
    expect(linesOf({ KEY_SECRT: "hunter2", CHECK_TOKEN: ["hunter2"] }).join()).not.toContain("hunter2");
  });

  it.for<unknown>(["", 0, false, [], {}, { limit: 5 }, ["x"]])(
    "an unknown variable is reported whatever its value: %j",
    (value) => {
      expect(linesOf({ LIMTS: value })).toHaveLength(1);
    },
  );

  it("known variables are not reported, including POLICIES_ with any number", () => {
    const known = Object.fromEntries(variableNames.map((name) => [name, "REGION"]));
    const lists = { POLICIES_2: "[]", POLICIES_12: "[]" };
    const token = "a-token-of-24-characters";
    const secrets = { KEY_SECRET: whole.KEY_SECRET, CHECK_TOKENS: token, ADMIN_TOKENS: token };
    expect(deploymentProblems({ ...known, ...lists, ...secrets })).toEqual([]);
  });
});

describe("a name that begins with two underscores", () => {
  it("variables that begin with two underscores are not reported", () => {
    expect(linesOf({ __STATIC_CONTENT_MANIFEST: "{}" })).toEqual([]);
    expect(linesOf({ _LIMITS: "5/minute" })).toHaveLength(1);
  });
});

describe("a binding", () => {
  it.for<[string, unknown]>([
    ["an object of a class", new URL("https://api.example.com")],
    ["a function", () => 1],
    ["bytes", new ArrayBuffer(1)],
    ["the metadata of the version", { id: "a", tag: "", timestamp: "2026-11-22T00:00:00Z" }],
    ["absent", undefined],
    ["null", null],
  ])("a binding that is %s is not reported as a variable", ([, value]) => {
    expect(linesOf({ LIMTS: value })).toEqual([]);
  });
});

describe("EXTRA_VARS", () => {
  it.for<unknown>(["REGION,BUILD_ID", " REGION , BUILD_ID ", ["REGION", "BUILD_ID"], '["REGION", "BUILD_ID"]'])(
    "EXTRA_VARS = %j keeps its variables from being reported",
    (names) => {
      expect(linesOf({ REGION: "eu", BUILD_ID: 7, EXTRA_VARS: names })).toEqual([]);
      expect(linesOf({ region: "eu", EXTRA_VARS: names })).toHaveLength(1);
    },
  );

  it.for<unknown>([5, true, "a b", ["REGION", 5], [["REGION"]], "REGION,", { REGION: true }, "[REGION"])(
    "EXTRA_VARS = %j is reported, and the configuration is valid",
    (names) => {
      expect(linesOf({ EXTRA_VARS: names })).toEqual([
        expect.stringMatching(/^EXTRA_VARS: expected the names of your own variables/),
      ]);
      expect(() => parseConfig({ ...whole, EXTRA_VARS: names })).not.toThrow();
    },
  );
});
