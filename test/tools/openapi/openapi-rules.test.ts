/** The OpenAPI documents pass the rules of Spectral and OWASP. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import spectral from "@stoplight/spectral-core";
import { Json } from "@stoplight/spectral-parsers";
import { describe, expect, it } from "vitest";
import { documents, everyRule, exceptedBy, rulesetWith } from "./ruleset.ts";

/** The findings of Spectral in a document. */
async function findings(
  rules: object,
  file: string,
  content = textOf(file),
): Promise<{ code: unknown; where: string }[]> {
  const linter = new spectral.Spectral();
  linter.setRuleset(new spectral.Ruleset(rules, { source: resolve("src/http/ruleset") }));
  const results = await linter.run(new spectral.Document(content, Json, pathOf(file)));
  return results.map(({ code, path }) => ({ code, where: path.join("/") }));
}

const pathOf = (file: string): string => resolve("src/http/wire", file);
const textOf = (file: string): string => readFileSync(pathOf(file), "utf8");

describe("S11: the rules for OpenAPI documents", () => {
  it.each(documents)(
    "S11: %s passes the rules of Spectral and OWASP, except for documented exceptions",
    async (file, overrides) => {
      expect(await findings(rulesetWith(overrides), file)).toEqual([]);
    },
  );

  it.each(documents)("S11: every documented exception of %s is needed", async (file, overrides) => {
    const codes = (await findings(everyRule, file)).map(({ code }) => code);
    expect(new Set(codes)).toEqual(new Set(exceptedBy(overrides)));
  });

  it("S11: the rules find mistakes in the OpenAPI document", async () => {
    const [[file, overrides]] = documents;
    const invalid = textOf(file)
      .replace('"openapi": "3.1.0"', '"openapi": "3.1.0", "colour": "red"')
      .replace('"$ref": "#/components/schemas/Settle"', '"$ref": "#/components/schemas/Sattle"')
      .replace('"pattern": "^/"', '"title": "/"');
    const found = await findings(rulesetWith(overrides), file, invalid);
    expect(found.map(({ code }) => code)).toEqual(
      expect.arrayContaining([
        "oas3-schema",
        "invalid-ref",
        "oas3-unused-component",
        "owasp:api4:2023-string-restricted",
      ]),
    );
  });
});
