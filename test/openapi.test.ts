import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import spectral from "@stoplight/spectral-core";
import { Json } from "@stoplight/spectral-parsers";
import { describe, expect, it } from "vitest";
import { everyRule, excepted, ruleset } from "./openapi-ruleset.ts";

const file = resolve("src/http/openapi.json");
const text = readFileSync(file, "utf8");

/** What Spectral finds in a text that stands for the document's. */
async function found(rules: object, written = text): Promise<{ code: unknown; where: string }[]> {
  const linter = new spectral.Spectral();
  linter.setRuleset(new spectral.Ruleset(rules, { source: resolve("src/http/ruleset") }));
  const results = await linter.run(new spectral.Document(written, Json, file));
  return results.map(({ code, path }) => ({ code, where: path.join("/") }));
}

describe("S11: the OpenAPI document", () => {
  it("is found in order by Spectral's rules and OWASP's, but for documented exceptions", async () => {
    expect(await found(ruleset)).toEqual([]);
  });

  it("needs each of the exceptions", async () => {
    const codes = (await found(everyRule)).map(({ code }) => code);
    expect(new Set(codes)).toEqual(new Set(excepted));
  });

  it("is not found in order when it is not", async () => {
    const wrong = text
      .replace('"openapi": "3.1.0"', '"openapi": "3.1.0", "colour": "red"')
      .replace('"$ref": "#/components/schemas/Settle"', '"$ref": "#/components/schemas/Sattle"')
      .replace('"pattern": "^/"', '"title": "/"');
    expect((await found(ruleset, wrong)).map(({ code }) => code)).toEqual(
      expect.arrayContaining([
        "oas3-schema",
        "invalid-ref",
        "oas3-unused-component",
        "owasp:api4:2023-string-restricted",
      ]),
    );
  });
});
