/** The OpenAPI document: rules, version and examples. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { type Schema, Validator } from "@cfworker/json-schema";
import spectral from "@stoplight/spectral-core";
import { Json } from "@stoplight/spectral-parsers";
import { describe, expect, it } from "vitest";
import { everyRule, excepted, ruleset } from "./openapi-ruleset.ts";

const file = resolve("src/http/wire/openapi.json");
const text = readFileSync(file, "utf8");

/** The findings of Spectral in the document, or in another text. */
async function findings(
  rules: object,
  content = text,
): Promise<{ code: unknown; where: string }[]> {
  const linter = new spectral.Spectral();
  linter.setRuleset(new spectral.Ruleset(rules, { source: resolve("src/http/ruleset") }));
  const results = await linter.run(new spectral.Document(content, Json, file));
  return results.map(({ code, path }) => ({ code, where: path.join("/") }));
}

describe("S11: the OpenAPI document", () => {
  it("S11: the OpenAPI document passes the rules of Spectral and OWASP, except for documented exceptions", async () => {
    expect(await findings(ruleset)).toEqual([]);
  });

  it("S11: every documented exception is needed", async () => {
    const codes = (await findings(everyRule)).map(({ code }) => code);
    expect(new Set(codes)).toEqual(new Set(excepted));
  });

  it("S11: the rules find mistakes in the OpenAPI document", async () => {
    const invalid = text
      .replace('"openapi": "3.1.0"', '"openapi": "3.1.0", "colour": "red"')
      .replace('"$ref": "#/components/schemas/Settle"', '"$ref": "#/components/schemas/Sattle"')
      .replace('"pattern": "^/"', '"title": "/"');
    expect((await findings(ruleset, invalid)).map(({ code }) => code)).toEqual(
      expect.arrayContaining([
        "oas3-schema",
        "invalid-ref",
        "oas3-unused-component",
        "owasp:api4:2023-string-restricted",
      ]),
    );
  });
});

interface Example {
  readonly place: string;
  readonly schema: Schema;
  readonly value: unknown;
}

type Json = Record<string, unknown>;
const isObject = (value: unknown): value is Json => typeof value === "object" && value !== null;

const document = JSON.parse(text) as Json & {
  readonly info: { readonly version: string };
  readonly paths: Readonly<Record<string, Readonly<Record<string, Json>>>>;
};

/** A part of the document, or what its `$ref` points to. */
function resolved(value: unknown): unknown {
  if (!isObject(value) || typeof value["$ref"] !== "string") return value;
  const places = value["$ref"].split("/").slice(1);
  return places.reduce<unknown>((at, place) => Reflect.get(Object(at), place), document);
}

/** All examples in a part of the document, with their schemas. */
function examplesIn(part: unknown, place: string): Example[] {
  const value = resolved(part);
  if (!isObject(value)) return [];
  const { schema, example, examples } = value;
  const named = isObject(examples) && !Array.isArray(examples) ? Object.entries(examples) : [];
  const examplesHere = [
    ...(example === undefined ? [] : [["example", { value: example }] as const]),
    ...named,
  ];
  const own = isObject(schema)
    ? examplesHere.map(([name, each]) => ({
        place: `${place}/${name}`,
        schema: schema as Schema,
        value: Object(each).value as unknown,
      }))
    : [];
  const within = Object.entries(value).filter(
    ([name]) => !["schema", "example", "examples"].includes(name),
  );
  return [...own, ...within.flatMap(([name, each]) => examplesIn(each, `${place}/${name}`))];
}

const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({
    name: `${method.toUpperCase()} ${path}`,
    operation,
  })),
);

describe("the OpenAPI document", () => {
  it("the OpenAPI document has the version of the package", () => {
    const { version } = JSON.parse(readFileSync("package.json", "utf8")) as { version: string };
    expect(document.info.version).toBe(version);
  });

  it.each(operations)(
    "the OpenAPI document has examples of requests and answers of $name",
    ({ operation }) => {
      const { parameters = [], requestBody, responses } = operation;
      const requestExamples = [...examplesIn(parameters, ""), ...examplesIn(requestBody, "")];
      const hasNoInput = operation["parameters"] === undefined && requestBody === undefined;
      expect(requestExamples.length > 0).toBe(!hasNoInput);
      const [[status, success]] = Object.entries(responses as object) as [[string, unknown]];
      const isEmpty = status === "204";
      expect(examplesIn(success, "").length > 0).toBe(!isEmpty);
    },
  );

  it("every example in the OpenAPI document is valid by its schema", () => {
    const examples = operations.flatMap(({ name, operation }) => examplesIn(operation, name));
    const invalid = examples.flatMap(({ place, schema, value }) => {
      const whole = { ...schema, components: document["components"] };
      const { errors } = new Validator(whole, "2020-12", false).validate(value);
      return errors.map(({ instanceLocation, error }) => `${place} ${instanceLocation}: ${error}`);
    });
    expect(invalid).toEqual([]);
    expect(examples.length).toBeGreaterThan(30);
  });
});
