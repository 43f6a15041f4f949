/** The OpenAPI documents: their version and examples. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { type Schema, Validator } from "@cfworker/json-schema";
import { describe, expect, it } from "vitest";
import { packageVersion } from "../../../src/http/wire/version.ts";

const documents = ["openapi.json", "admin-openapi.json"];

interface Example {
  readonly place: string;
  readonly schema: Schema;
  readonly value: unknown;
}

type Json = Record<string, unknown>;
const isObject = (value: unknown): value is Json => typeof value === "object" && value !== null;

interface OpenApi {
  readonly info: { readonly version: string };
  readonly paths: Readonly<Record<string, Readonly<Record<string, Json>>>>;
  readonly components: object;
}

/** A part of the document, or what its `$ref` points to. */
function resolved(document: object, value: unknown): unknown {
  if (!isObject(value) || typeof value["$ref"] !== "string") return value;
  const places = value["$ref"].split("/").slice(1);
  return places.reduce<unknown>((at, place) => Reflect.get(Object(at), place), document);
}

/** All examples in a part of the document, with their schemas. */
function examplesIn(document: object, part: unknown, place: string): Example[] {
  const value = resolved(document, part);
  if (!isObject(value)) return [];
  const { schema, example, examples } = value;
  const named = isObject(examples) && !Array.isArray(examples) ? Object.entries(examples) : [];
  const examplesHere = [...(example === undefined ? [] : [["example", { value: example }] as const]), ...named];
  const own = isObject(schema)
    ? examplesHere.map(([name, each]) => ({
        place: `${place}/${name}`,
        schema: schema as Schema,
        value: Object(each).value as unknown,
      }))
    : [];
  const within = Object.entries(value).filter(([name]) => !["schema", "example", "examples"].includes(name));
  return [...own, ...within.flatMap(([name, each]) => examplesIn(document, each, `${place}/${name}`))];
}

describe.each(documents)("the OpenAPI document %s", (file) => {
  const document = JSON.parse(readFileSync(resolve("src/http/wire", file), "utf8")) as OpenApi;
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      name: `${method.toUpperCase()} ${path}`,
      operation,
    })),
  );

  it(`${file} has the version of the package`, () => {
    const { version } = JSON.parse(readFileSync("package.json", "utf8")) as { version: string };
    expect(document.info.version).toBe(version);
    expect(packageVersion).toBe(version);
  });

  it.each(operations)(`${file} has examples of requests and answers of $name`, ({ operation }) => {
    const { parameters = [], requestBody, responses } = operation;
    const requestExamples = [...examplesIn(document, parameters, ""), ...examplesIn(document, requestBody, "")];
    const hasNoInput = operation["parameters"] === undefined && requestBody === undefined;
    expect(requestExamples.length > 0).toBe(!hasNoInput);
    const [[status, success]] = Object.entries(responses as object) as [[string, unknown]];
    const isEmpty = status === "204" || status === "101";
    expect(examplesIn(document, success, "").length > 0).toBe(!isEmpty);
  });

  it(`every example in ${file} is valid according to its schema`, () => {
    const examples = operations.flatMap(({ name, operation }) => examplesIn(document, operation, name));
    const invalid = examples.flatMap(({ place, schema, value }) => {
      const whole = { ...schema, components: document.components };
      const { errors } = new Validator(whole, "2020-12", false).validate(value);
      return errors.map(({ instanceLocation, error }) => `${place} ${instanceLocation}: ${error}`);
    });
    expect(invalid).toEqual([]);
    expect(examples.length).toBeGreaterThan(30);
  });
});
