/** The tables of docs/reference/policies.md list every field, with a valid example and the actual default. */
import { describe, expect, it } from "vitest";
import { readPolicy } from "../../src/policy/policy.ts";
import { strategies } from "../../src/strategies/index.ts";
import { readConfiguration } from "./configuration-blocks.ts";
import { fieldsOf, namesOf, valueOf, withDefault } from "./field-table.ts";
import { readPage } from "./pages.ts";

const page = readPage("docs/reference/policies.md");

/** The part of each problem text that states the accepted values. */
function problemsOf(written: object): string[] {
  const problems: string[] = [];
  readPolicy("", "", written, ({ accepted }) => problems.push(accepted));
  return problems;
}

/** A policy without its written form, which differs when a default is written explicitly. */
function policyOf(written: object): unknown {
  expect(problemsOf(written)).toEqual([]);
  return { ...readPolicy("", "", written, () => undefined), written: null };
}

/** The field names in the problem text about an unknown field. */
const acceptedFields = (written: object): string[] =>
  (problemsOf(written)[0] ?? "").replace("one of the fields ", "").split(", ").toSorted();

const policyFields = fieldsOf(page, "field");
/** Whether the field has a meaning only within another policy. */
const isOfChild = (name: string): boolean => ["within", "guaranteed", "weight"].includes(name);
const root = 'limits = "20/minute"';

const limitFields = fieldsOf(page, "field of a limit");

describe("the fields of a policy", () => {
  it("the policy reference lists every field of a policy and no other", () => {
    expect(namesOf(policyFields)).toEqual(acceptedFields({ name: "a", limits: "1/hour", unknown: 1 }));
  });

  it.each(policyFields)("the example of the policy field $name is valid", ({ name, example }) => {
    expect(example).toMatch(new RegExp(`^${name} = `));
    const mode = name === "maxDelay" ? "queue" : "police";
    const lines = [
      'JWT_JWKS_URL = "https://id.example.com/keys"',
      ...(isOfChild(name) ? ["[[vars.POLICIES]]", 'name = "org"', 'key = "jwt:org"', root] : []),
      "[[vars.POLICIES]]",
      ...(name === "name" ? [] : ['name = "a"']),
      // A limit that accepts every other field.
      ...(name === "limits"
        ? []
        : [`limits = { limit = 10, window = "1m", strategy = "leaky-bucket", mode = "${mode}" }`]),
      ...(name === "syncEvery" ? ['consistency = "eventual"'] : []),
      // The root of a policy within another one states its objects.
      ...(name === "objects" || isOfChild(name) ? [] : ['objects = "sharded"']),
      ...(isOfChild(name) && name !== "within" ? ['within = "org"'] : []),
      ...(name === "weight" ? ['guaranteed = "fair"'] : []),
      example,
    ];
    expect(readConfiguration({ text: lines.join("\n") }).problems).toEqual([]);
  });

  it.each(withDefault(policyFields))(
    "the page states the default of the policy field $name",
    ({ name, default: fallback }) => {
      const policy = {
        name: "a",
        limits: "1/hour",
        ...(name === "shards" && { objects: "sharded" }),
        ...(name === "syncEvery" && { consistency: "eventual" }),
      };
      const value = valueOf(fallback);
      expect(policyOf({ ...policy, [name]: value })).toEqual(policyOf(policy));
    },
  );
});

describe("the fields of a limit", () => {
  /** A limit in which this field takes effect. */
  const limitFor = (name: string): Record<string, unknown> => ({
    limit: 10,
    window: name === "timezone" ? "1d" : "1h",
    strategy: strategyFor(name),
    ...(name === "timezone" && { align: "calendar" }),
  });

  const policyWith = (limit: object): object => ({ name: "a", limits: limit });

  it("the policy reference lists every field of a limit and no other", () => {
    const calendar = { strategy: "fixed-window", align: "calendar" };
    const accepted = [calendar, ...[...strategies.keys()].map((strategy) => ({ strategy }))].flatMap((limit) =>
      acceptedFields(policyWith({ limit: 1, window: "1d", ...limit, unknown: 1 })),
    );
    expect(namesOf(limitFields)).toEqual([...new Set(accepted)].toSorted());
  });

  it.each(limitFields)("the example of the limit field $name is valid", ({ name, example }) => {
    expect(example).toMatch(new RegExp(`^${name} = `));
    const { [name]: _, ...others } = limitFor(name);
    const written = Object.entries(others).map(([each, value]) => `${each} = ${JSON.stringify(value)}`);
    const limit = [...written, example].join(", ");
    const text = `[[vars.POLICIES]]\nname = "a"\nlimits = { ${limit} }\n`;
    expect(readConfiguration({ text }).problems).toEqual([]);
  });

  // The configuration stores no time zone for a limit without one, and the calendar then uses UTC.
  it.each(withDefault(limitFields).filter(({ name }) => name !== "timezone"))(
    "the page states the default of the limit field $name",
    ({ name, default: fallback }) => {
      const value = valueOf(fallback);
      const limit = limitFor(name);
      expect(policyOf(policyWith({ ...limit, [name]: value }))).toEqual(policyOf(policyWith(limit)));
    },
  );
});

/** A strategy that has this option. */
function strategyFor(option: string): string {
  if (["buckets", "precision", "edge"].includes(option)) return "sliding-buckets";
  if (["burst", "refill"].includes(option)) return "token-bucket";
  return option === "mode" ? "leaky-bucket" : "fixed-window";
}
