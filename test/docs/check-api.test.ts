/** The tables of docs/reference/check-api.md list the names that the OpenAPI document and the configuration accept. */
import { describe, expect, it } from "vitest";
import { parseConfig } from "../../src/policy/vars/config.ts";
import document from "../../src/http/wire/openapi.json" with { type: "json" };
import { pageBlock } from "./page-block.ts";
import { codesIn, readPage } from "./pages.ts";

const path = "docs/reference/check-api.md";
const { tables } = readPage(path);

/** The rows of a table, by the heading above the table and the table's position below it. */
const rowsOf = (heading: string, place = 0): readonly (readonly string[])[] =>
  tables.filter((table) => table.heading === heading)[place]?.rows ?? [];

const names = (rows: ReturnType<typeof rowsOf>): string[] => rows.flatMap(([cell]) => codesIn(cell));

const { schemas } = document.components;

/** The rights of calls whose descriptions name no right. */
const otherRights = new Map([
  ["/settle", "check"],
  ["/forward", "check"],
  ["/health", "none"],
  ["/openapi.json", "none"],
]);

describe("the page about /check", () => {
  it("the first table of the /check reference lists every call of the OpenAPI document with its right", () => {
    const operations = Object.entries(document.paths).flatMap(([route, methods]) =>
      Object.entries(methods).map(([method, { description }]) => ({
        call: `${method.toUpperCase()} /check${route === "/" ? "" : route}`,
        right: /needs the right `(\w+)`/.exec(description)?.[1] ?? otherRights.get(route) ?? "",
      })),
    );
    const listed = rowsOf("HTTP API (/check)").map(([call = "", , right = ""]) => ({
      call: /`([^`]+)`/.exec(call)?.[1] ?? "",
      right: right.replaceAll("`", ""),
    }));
    expect(new Set(listed)).toEqual(new Set(operations));
  });

  it("the field tables of the /check reference list every field of a check and of a response", () => {
    const fields = new Set([
      ...Object.keys(schemas.PolicyCheck.properties),
      ...Object.keys(schemas.AdhocCheck.properties),
    ]);
    expect(new Set(names(rowsOf("Fields of a check")))).toEqual(fields);
    expect(names(rowsOf("Fields of a response"))).toEqual(schemas.Decision.required);
    expect(
      ["name", "strategy", "limit", "windowMs"].concat(names(rowsOf("Fields of a response", 1))).toSorted(),
    ).toEqual(schemas.LimitDecision.required.toSorted());
  });

  it("the reason tables of the /check reference list every reason", () => {
    const [denied, allowed] = [names(rowsOf("Reasons")), names(rowsOf("Reasons", 1))];
    expect(denied.toSorted()).toEqual(schemas.Problem.properties.reason.enum.toSorted());
    expect(new Set([...denied, ...allowed])).toEqual(new Set(schemas.Decision.properties.reason.enum));
  });

  it("the error table of the /check reference lists every status of a problem", () => {
    const statuses = Object.values(document.paths)
      .flatMap((methods) => Object.values(methods))
      .flatMap(({ responses }) => Object.keys(responses))
      .filter((status) => /^[45]\d\d$/.test(status));
    const listed = rowsOf("Errors").map(([status]) => status);
    // Every path answers 405 to other methods.
    expect(new Set(listed)).toEqual(new Set([...statuses, "405"]));
  });

  it("the header table of the /check reference lists every field that describes a request", () => {
    const fields = document.paths["/forward"].get.parameters.flatMap((parameter) =>
      "in" in parameter && parameter.in === "header" ? [parameter.name] : [],
    );
    expect(
      names(rowsOf("GET /check/forward"))
        .filter((name) => name.startsWith("X-"))
        .toSorted(),
    ).toEqual(fields.toSorted());
  });

  it("the example of CHECK_TOKENS in the /check reference is valid, and the table lists its fields", () => {
    const CHECK_TOKENS = pageBlock("reference/check-api", "text figure");
    const { checkTokens } = parseConfig({ KEY_SECRET: "k", LIMITS: "1/minute", CHECK_TOKENS });
    expect(checkTokens.map(({ tenant, may }) => [tenant, [...may]])).toEqual([
      [null, ["check", "look", "forget", "adhoc"]],
      ["acme", ["check", "look"]],
    ]);
    expect(rowsOf("Tokens").map(([name]) => name)).toEqual(["`token`", "`tenant`", "`may`"]);
  });
});
