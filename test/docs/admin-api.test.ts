/**
 * The tables of docs/reference/admin-api.md and admin-api-rules.md list the same names as the OpenAPI document, the
 * readers of rules and the metrics.
 */
import { describe, expect, it } from "vitest";
import { outcomeNames } from "../../src/control/protocol.ts";
import { metricsText } from "../../src/control/object/metrics.ts";
import { keyKinds, policyKinds } from "../../src/admin/rule-input.ts";
import document from "../../src/http/wire/admin-openapi.json" with { type: "json" };
import { exampleMetrics } from "../control/object/example-metrics.ts";
import { codesIn, readPage, rowsOf } from "./pages.ts";

const page = readPage("docs/reference/admin-api.md");
const rulesPage = readPage("docs/reference/admin-api-rules.md");
const { schemas } = document.components;

/** The rights of calls whose descriptions name no right. */
const otherRights = new Map([
  ["/openapi.json", "any"],
  ["/operator", "any"],
  ["/tail", "a ticket"],
]);

const firstCodes = (heading: string): string[] => rowsOf(page, heading).map(([cell]) => codesIn(cell)[0] ?? "");

describe("the page about the admin API", () => {
  it("the page about the admin API lists every call of the OpenAPI document with its right", () => {
    const operations = Object.entries(document.paths).flatMap(([route, methods]) =>
      Object.entries(methods).map(([method, { description }]) => ({
        call: `${method.toUpperCase()} ${route}`,
        right: /needs the right `(\w+)`/.exec(description)?.[1] ?? otherRights.get(route) ?? "",
      })),
    );
    const listed = rowsOf(page, "call").map(([call = "", , right = ""]) => ({
      call: codesIn(call)[0],
      right: right.replaceAll("`", ""),
    }));
    expect(listed).toHaveLength(operations.length);
    expect(new Set(listed)).toEqual(new Set(operations));
  });

  it("the page about rules lists every kind of rule for each scope, with the fields that only some kinds have", () => {
    const rows = rowsOf(rulesPage, "scope").map((row) => row.map((cell) => codesIn(cell)));
    const kindsOf = (scope: string): (string | undefined)[] =>
      rows.filter((row) => row[0]?.[0] === scope).map((row) => row[1]?.[0]);
    expect(kindsOf("key")).toEqual([...keyKinds]);
    expect(kindsOf("policy")).toEqual([...policyKinds]);
    expect(new Set([...keyKinds, ...policyKinds])).toEqual(new Set(schemas.RuleKind.enum));
    const listed = new Set([
      ...rows.flatMap(([, , fields = []]) => fields),
      ...rowsOf(page, "field").flatMap(([cell]) => codesIn(cell)),
      ...rulesPage.tables
        .filter(({ heading }) => heading === "Make a rule")
        .flatMap(({ rows: all }) => all.flatMap(([cell]) => codesIn(cell))),
    ]);
    const fields = Object.keys(schemas.RuleCreation.properties);
    expect(fields.filter((field) => !listed.has(field))).toEqual([]);
  });

  it("the page about the admin API lists every field of a request for an explanation", () => {
    expect(firstCodes("field").toSorted()).toEqual(Object.keys(schemas.KeyReference.properties).toSorted());
  });

  it("the page about the admin API lists every outcome in the statistics", () => {
    expect(firstCodes("outcome")).toEqual([...outcomeNames]);
  });

  it("the page about the admin API lists every metric with its type and labels", () => {
    const text = metricsText(exampleMetrics());
    const labelsOf = (name: string): string[] => [
      ...new Set(
        [...text.matchAll(new RegExp(`^${name}(?:_bucket|_sum|_count)?\\{(.*)\\}`, "gm"))].flatMap(([, labels = ""]) =>
          [...labels.matchAll(/(\w+)=/g)].map(([, label = ""]) => label),
        ),
      ),
    ];
    const exported = [...text.matchAll(/^# TYPE (\S+) (\w+)/gm)].map(([, name = "", type]) => [
      name,
      type,
      labelsOf(name),
    ]);
    const listed = rowsOf(page, "metric").map(([name, type, labels]) => [codesIn(name)[0], type, codesIn(labels)]);
    expect(listed).toEqual(exported);
  });

  it("the page about the admin API lists every status of an error", () => {
    const statuses = Object.values(document.paths)
      .flatMap((methods) => Object.values(methods))
      .flatMap(({ responses }) => Object.keys(responses))
      .filter((status) => /^[45]\d\d$/.test(status));
    const listed = rowsOf(page, "status").map(([status]) => status);
    // Every path answers 405 to other methods.
    expect(listed).toEqual([...new Set([...statuses, "405"])].toSorted());
  });
});
