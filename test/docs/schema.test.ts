/** The JSON schema of wrangler.toml accepts what the Worker accepts, and finds frequent mistakes. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { experimental_readRawConfig } from "wrangler";
import { policyEntries } from "../../src/policy/policy.ts";
import { limitFields, strategies } from "../../src/strategies/index.ts";
import { configOf, plain, problemsIn } from "../policy/parsed.ts";
import { fileValidator, schemaErrors } from "../policy/json-schema.ts";
import { isConfiguration, isInvalid, withBlock } from "./configuration-blocks.ts";
import { readPages } from "./pages.ts";
import { forAll } from "../for-all.ts";
import { schemaFile, schemaText, wranglerSchema } from "./schema.ts";

type Values = Readonly<Record<string, unknown>>;

const shipped = readFileSync("wrangler.toml", "utf8");

describe("the JSON schema of wrangler.toml", () => {
  it("the committed schema equals the generated schema; otherwise run npx node test/docs/schema.ts", () => {
    expect(readFileSync(schemaFile, "utf8")).toBe(schemaText());
  });

  it("the first line of wrangler.toml names the schema", () => {
    expect(shipped.split("\n")[0]).toBe(`#:schema ./${schemaFile}`);
  });

  it("every field of policies and limits has a description", () => {
    const definitions = wranglerSchema()["definitions"] as Record<string, { properties?: object }>;
    const described = (name: string): string[] =>
      Object.entries(definitions[name]?.properties ?? {}).flatMap(([field, schema]) =>
        "description" in schema ? [field] : [],
      );
    expect(described("HeadgatePolicy").toSorted()).toEqual([...Object.keys(policyEntries), "continues"].toSorted());
    expect(described("HeadgateLimitFields").toSorted()).toEqual([...limitFields].toSorted());
  });

  it("the schema restricts every value", () => {
    const definitions = Object.entries(wranglerSchema()["definitions"] as object);
    const ours = definitions.filter(([name]) => name.startsWith("Headgate"));
    // Only the Worker checks the members of a JSON Web Key.
    expect(ours.flatMap(([name, schema]) => emptyPlaces(schema, name))).toEqual([
      "HeadgateVariables.properties.JWT_KEY.additionalProperties",
    ]);
  });

  it("the shipped wrangler.toml and every valid toml block of the documentation are accepted", () => {
    const blocks = readPages()
      .flatMap(({ blocks: all }) => all)
      .filter((block) => isConfiguration(block) && !isInvalid(block));
    expect(blocks.length).toBeGreaterThan(20);
    expect(errorsOfFile(shipped)).toEqual([]);
    const errors = blocks.flatMap(({ page, line, text }) =>
      errorsOfFile(withBlock(shipped, text)).map((error) => `${page}:${line}: ${error}`),
    );
    expect(errors).toEqual([]);
  });

  it("the schema finds mistakes in an environment and in wrangler's own settings", () => {
    expect(errorsOfFile(withBlock(shipped, 'LIMITS = "1/s"\n[env.a.vars]\nLIMITS = 5'))).not.toEqual([]);
    expect(errorsOfFile(withBlock(shipped, 'LIMITS = "1/s"\n[observability]\nenabled = 1'))).not.toEqual([]);
  });
});

describe("the defaults that editors show", () => {
  const definitions = wranglerSchema()["definitions"] as Record<
    string,
    { readonly properties: Readonly<Record<string, { readonly default?: unknown }>> }
  >;
  const defaultsOf = (definition: string): [name: string, fallback: unknown][] =>
    Object.entries(definitions[definition]?.properties ?? {}).flatMap(([name, schema]) =>
      "default" in schema ? [[name, schema.default]] : [],
    );

  /**
   * The settings in effect. They exclude a policy's written form, which shows whether a default is written explicitly.
   */
  const effective = (variables: Parameters<typeof configOf>[0]): unknown => {
    const { policies, ...others } = configOf(variables);
    return plain({ ...others, policies: policies.map((each) => ({ ...each, written: null })) });
  };

  it.each(defaultsOf("HeadgateVariables"))("%s = %j is the default in the schema", (name, fallback) => {
    expect(effective({ [name]: fallback })).toEqual(effective({}));
  });

  it.each(defaultsOf("HeadgatePolicy"))("%s = %j is the default of policies in the schema", (name, fallback) => {
    const policy = {
      ...(name === "shards" && { objects: "sharded" }),
      ...(name === "syncEvery" && { consistency: "eventual" }),
    };
    expect(effective(variablesWith({ ...policy, [name]: fallback }))).toEqual(effective(variablesWith(policy)));
  });

  it.each(defaultsOf("HeadgateLimitFields"))("%s = %j is the default of limits in the schema", (name, fallback) => {
    const strategy = [...strategies.values()].find(({ options }) => name in options)?.name;
    const limit = { limit: 5, window: "1h", strategy: strategy ?? "fixed-window" };
    expect(effective(variablesWith({ limits: { ...limit, [name]: fallback } }))).toEqual(
      effective(variablesWith({ limits: limit })),
    );
  });
});

/** The paths of schemas that accept every value. */
function emptyPlaces(schema: unknown, place: string): string[] {
  if (typeof schema !== "object" || schema === null || Array.isArray(schema)) return [];
  if (Object.keys(schema).length === 0) return [place];
  return Object.entries(schema).flatMap(([key, each]) => emptyPlaces(each, `${place}.${key}`));
}

function errorsOfFile(text: string): string[] {
  const folder = mkdtempSync(join(tmpdir(), "headgate-schema-"));
  try {
    const file = join(folder, "wrangler.toml");
    writeFileSync(file, text);
    const { rawConfig } = experimental_readRawConfig({ config: file });
    return fileValidator
      .validate(JSON.parse(JSON.stringify(rawConfig)))
      .errors.map(({ instanceLocation, error }) => `${instanceLocation}: ${error}`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const variablesWith = (policy: Values): Values => ({
  KEY_SECRET: "a secret of at least thirty-two characters",
  JWT_KEY: "a secret of at least thirty-two bytes",
  POLICIES: [{ name: "a", limits: "5/minute", ...policy }],
});

describe("a mistake that an editor shows", () => {
  it.each<[string, Values]>([
    ["a misspelt field", { limts: "5/minute" }],
    ["a field of another table", { methods: ["GET"] }],
    ["an unknown value", { onError: "close" }],
    ["a value of another type", { dryRun: "yes" }],
    ["a number out of bounds", { ipv6Prefix: 129 }],
    ["a fraction", { shards: 1.5, objects: "sharded" }],
    ["an invalid name", { name: "Login" }],
    ["limits without a window", { limits: { limit: 5 } }],
    ["an option of another strategy", { limits: { limit: 5, window: "1m", strategy: "sliding-log", burst: 9 } }],
    ["an unknown strategy", { limits: { limit: 5, window: "1m", strategy: "leaky" } }],
    ["no limits in the notation", { limits: "five per minute" }],
    ["an unknown unit in the notation", { limits: "100/fortnight" }],
    ["an unknown unit in a list", { limits: ["5/s", "100/moment"] }],
    ["an unknown unit of a window", { limits: { limit: 5, window: "5 parsecs" } }],
    ["a number of calendar months", { limits: "100/2 months" }],
    ["an unknown unit of a duration", { timeout: "5 jiffies" }],
    ["a calendar month as a duration", { ban: "1 month" }],
    ["too many limits", { limits: Array.from({ length: 17 }, (_, index) => `${index + 1}/s`) }],
    ["no duration", { timeout: 500 }],
    ["an unknown key part", { key: ["ipp"] }],
    ["a path without a slash", { match: { path: "login" } }],
    ["a path with a query", { match: { path: "/search?q=*" } }],
    ["a path with an optional part", { match: { path: "/users/:id?" } }],
    ["a path with a group", { match: { path: "/(a|b)" } }],
    ["an unknown field of match", { match: { paths: "/login" } }],
    ["a status that does not exist", { count: { status: [999] } }],
    ["both kinds of statuses", { count: { status: [401], exceptStatus: [200] } }],
    ["a cost of 0", { cost: 0 }],
    ["a cost from a body", { cost: { from: "body:rows", max: 5 } }],
    ["an override without limits", { overrides: [{ key: "a" }] }],
    ["an override for no key", { overrides: [{ limits: "1/s" }] }],
    [
      "an override with a key and a condition",
      { overrides: [{ key: "203.0.113.7", when: "country=DE", limits: "1/s" }] },
    ],
    ["a condition on a part that callers invent", { overrides: [{ when: "header:A=b", limits: "1/s" }] }],
    ["shards without objects", { shards: 8 }],
    ["shards of an object for each key", { shards: 8, objects: "per-key" }],
    ["syncs without a consistency", { syncEvery: "2s" }],
    ["syncs of a leased policy", { syncEvery: "2s", consistency: "leased" }],
    ["an incomplete ban", { ban: { after: 3, within: "10m" } }],
    ["a status of success for denials", { onDeny: { status: 200 } }],
    ["limits in a continuation", { continues: "a" }],
  ])("%s is rejected by the schema and by the Worker", (_, policy) => {
    expect(schemaErrors(variablesWith(policy))).not.toEqual([]);
    expect(problemsIn(variablesWith(policy))).not.toEqual([]);
  });

  it.each<[string, Values]>([
    ["a misspelt variable", { LIMTS: "5/minute" }],
    ["a gap in the name of POLICIES", { POLICIES_02: [] }],
    ["a flag as a number", { LOG_DENIALS: 1 }],
    ["an origin without a scheme", { ORIGIN: "api.example.com" }],
    ["an empty list of policies", { POLICIES: [] }],
    ["LIMITS beside POLICIES", { ...variablesWith({}), LIMITS: "5/minute" }],
    ["KEY beside POLICIES_2", { POLICIES_2: [{ name: "a", limits: "1/s" }], KEY: "ip" }],
    ["STRATEGY beside POLICIES", { ...variablesWith({}), STRATEGY: "token-bucket" }],
  ])("the schema rejects %s among the variables", (_, variables) => {
    expect(fileValidator.validate({ name: "headgate", vars: variables }).valid).toBe(false);
  });

  it.each<[string, Values]>([
    ["an empty LIMITS beside POLICIES", { ...variablesWith({}), LIMITS: "" }],
    ["LIMITS beside an empty POLICIES", { ...variablesWith({}), POLICIES: "", LIMITS: "5/minute" }],
    ["an empty list of names in EXTRA_VARS", { ...variablesWith({}), EXTRA_VARS: [] }],
    ["a condition with a line break", variablesWith({ overrides: [{ when: "jwt:plan=\npro", limits: "1/s" }] })],
  ])("%s is accepted by the schema and by the Worker", (_, variables) => {
    expect(problemsIn(variables)).toEqual([]);
    expect(schemaErrors(variables)).toEqual([]);
  });

  it("with EXTRA_VARS, the schema accepts variables of the user's own", () => {
    const vars = { LIMITS: "5/minute", REGION: "eu", EXTRA_VARS: "REGION" };
    expect(fileValidator.validate({ name: "headgate", vars }).errors).toEqual([]);
  });
});

/** Fields about which the schema and the Worker must agree for every value, with the other fields that they need. */
const exactFields: Readonly<Record<string, Values>> = {
  onMissingKey: {},
  ipv6Prefix: {},
  trustedProxies: {},
  strategy: {},
  dryRun: {},
  onError: {},
  objects: {},
  shards: { objects: "sharded" },
  locationHint: {},
  jurisdiction: {},
  durability: {},
  consistency: {},
  denyCache: {},
  pathMatching: {},
  name: {},
};

const anyValue = fc.oneof(
  fc.constantFrom<unknown>("shared", "ip", "deny", "skip", "local", "open", "closed", "per-key"),
  fc.constantFrom<unknown>("sharded", "strict", "leased", "eventual", "relaxed", "confirmed"),
  fc.constantFrom<unknown>("lenient", "exact", "weur", "apac-ne", "eu", "fedramp", "EU", ""),
  fc.constantFrom<unknown>(...strategies.keys(), true, false, "true"),
  fc.integer({ min: -1, max: 130 }),
  fc.integer({ min: 4094, max: 4098 }),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.stringMatching(/^[a-zA-Z0-9_.-]{1,66}$/),
  // TOML has no null value.
  fc.jsonValue({ maxDepth: 1 }).filter((value) => !JSON.stringify(value).includes("null")),
);

const pathUnit = fc.oneof(
  fc.constantFrom("/", "*", "%2F", ":id", ".", " ", "~"),
  fc.string({ unit: "binary", minLength: 1, maxLength: 1 }),
);

/** The name of a unit, in upper or lower case. */
const knownUnit = fc.mixedCase(
  fc.constantFrom(
    ..."ms millisecond milliseconds s sec secs second seconds m min mins minute minutes".split(" "),
    ..."h hr hrs hour hours d day days w week weeks".split(" "),
    ..."mo month months y yr yrs year years".split(" "),
  ),
);
const unit = fc.oneof(
  knownUnit,
  knownUnit.map((name) => `${name}s`),
  fc.stringMatching(/^[A-Za-z]{1,3}$/),
);
/** A count and a unit, with any white space. */
const quantity = fc
  .tuple(
    fc.constantFrom("", " ", "\n"),
    fc.constantFrom("", "1", "01", "2", "60"),
    fc.constantFrom("", " ", "\t"),
    unit,
    fc.constantFrom("", " "),
  )
  .map((parts) => parts.join(""));

const withWindow = (window: string): Values => ({
  limits: { limit: 5, window, strategy: "fixed-window" },
});

describe("the schema and the Worker agree", () => {
  it.each<[string, (written: string) => Values]>([
    ["of a window", withWindow],
    ["in the notation", (written) => ({ limits: `5/${written}`, strategy: "fixed-window" })],
    ["of a duration", (written) => ({ ban: written })],
  ])("the schema and the Worker agree on every unit %s", (_, fields) =>
    forAll([quantity], (written) => {
      const variables = variablesWith(fields(written));
      const isAccepted = schemaErrors(variables).length === 0;
      expect([written, isAccepted]).toEqual([written, problemsIn(variables).length === 0]);
    })(),
  );

  it("the schema and the Worker agree on every character of a path, except a colon within a segment", () => {
    const characters = Array.from({ length: 0x7f - 0x20 }, (_, index) => String.fromCharCode(0x20 + index)).concat(
      "é",
      "\u{1f600}",
    );
    const withPath = (character: string): Values => variablesWith({ match: { path: `/a${character}b` } });
    const different = characters.filter(
      (each) => (schemaErrors(withPath(each)).length === 0) !== (problemsIn(withPath(each)).length === 0),
    );
    expect(different).toEqual([":"]);
  });

  it(
    "the schema accepts all paths that the Worker accepts",
    forAll([fc.string({ unit: pathUnit, maxLength: 8 })], (path) => {
      const variables = variablesWith({ match: { path: `/${path}` } });
      fc.pre(problemsIn(variables).length === 0);
      expect(schemaErrors(variables)).toEqual([]);
    }),
  );

  it.each(Object.entries(exactFields))("the schema and the Worker agree on every value of %s", (field, beside) =>
    forAll(
      [anyValue],
      (value) => {
        const variables = variablesWith({ ...beside, [field]: value });
        const isAccepted = schemaErrors(variables).length === 0;
        // Conflicts with other fields are not part of this field's form.
        const problems = problemsIn(variables).filter((problem) => problem.field === `[0].${field}`);
        expect([field, value, isAccepted]).toEqual([field, value, problems.length === 0]);
      },
      200,
    )(),
  );

  /** Limits in notation, with any spelling of numbers, words and separators. */
  const space = fc.constantFrom("", " ", "  ");
  const separator = fc.constantFrom("/", " per ", " PER ", " requests per ", " req/", " reqs / ");
  const one = fc
    .tuple(space, fc.integer({ min: 1, max: 9_999 }), separator, fc.constantFrom("", "1", "2 "), knownUnit, space)
    .map((parts) => parts.join(""));
  const notation = fc
    .tuple(
      fc.array(one, { minLength: 1, maxLength: 3 }),
      fc.constantFrom(";", ",", "|", " ; "),
      fc.constantFrom("", ";", "; "),
    )
    .map(([all, between, end]) => all.join(between) + end);

  it(
    "the schema accepts all notation that the Worker accepts",
    forAll([notation], (limits) => {
      const problems = problemsIn(variablesWith({ limits }));
      fc.pre(problems.length === 0);
      expect(schemaErrors(variablesWith({ limits }))).toEqual([]);
    }),
  );
});
