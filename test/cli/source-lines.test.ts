import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { lineFinder, lineInDevVars, nearestLine, pathIn } from "../../src/cli/source-lines.ts";

const folder = mkdtempSync(join(tmpdir(), "headgate-lines-"));
afterAll(() => rmSync(folder, { recursive: true }));

function written(name: string, lines: readonly string[]): string {
  const file = join(folder, name);
  writeFileSync(file, lines.join("\n"));
  return file;
}

const lineOf = (file: string, variable: string, field = "", section: readonly string[] = ["vars"]): number | null =>
  nearestLine(lineFinder(file), [...section, variable, ...pathIn(field)], section.length + 1);

const toml = [
  "# a comment",
  "[vars]",
  'ORIGIN = "route"',
  "LIMITS = [",
  '  "5/minute",',
  '  { limit = 9, window = "soon" },',
  "]",
  "",
  "[[vars.POLICIES]]",
  'name = "a"',
  'match.path = "/login"',
  "[[vars.POLICIES]]",
  'name = "b"',
  'text = """',
  "name = 1",
  '"""',
  'limits = [{ limit = 5 }, { limit = 6, "window" = "x" }]',
  "[[vars.POLICIES.overrides]]",
  'key = "k"',
  "[env.staging.vars]",
  'LIMITS = "1/s"',
];

it.each([
  ["ORIGIN", "", 3],
  ["LIMITS", "", 4],
  ["LIMITS", "[0]", 5],
  ["LIMITS", "[1].window", 6],
  ["POLICIES", "", 9],
  ["POLICIES", "[0].match.path", 11],
  ["POLICIES", "[0].match.methods", 11],
  ["POLICIES", "[0].limits", 9],
  ["POLICIES", "[1]", 12],
  ["POLICIES", "[1].name", 13],
  ["POLICIES", "[1].limits[1].window", 17],
  ["POLICIES", "[1].overrides[0].key", 19],
  ["POLICIES", "[1].overrides[0].limits", 18],
  ["STRATEGY", "", null],
])("in TOML, the nearest line of %s%s is %j", (variable, field, line) => {
  expect(lineOf(written("wrangler.toml", toml), variable, field)).toBe(line);
});

it("a variable of an environment has the line in the table of that environment", () => {
  expect(lineOf(written("wrangler.toml", toml), "LIMITS", "", ["env", "staging", "vars"])).toBe(21);
});

it("in JSON with comments, the nearest line of a value is found", () => {
  const file = written("wrangler.jsonc", [
    "{",
    "  // a comment",
    '  "vars": {',
    '    "POLICIES": [',
    '      { "name": "a",',
    '        "limits": ["5/minute"] },',
    "    ],",
    "  },",
    "}",
  ]);
  expect(lineOf(file, "POLICIES", "[0].limits[0]")).toBe(6);
  expect(lineOf(file, "POLICIES", "[0].key")).toBe(5);
  expect(lineOf(file, "LIMITS")).toBe(null);
});

it("broken TOML and a missing file have no lines", () => {
  expect(lineOf(written("broken.toml", ["[vars", "LIMITS = 1"]), "LIMITS")).toBe(null);
  expect(lineOf(join(folder, "missing.toml"), "LIMITS")).toBe(null);
});

it("the line of a secret in .dev.vars is that of its last assignment", () => {
  const file = written(".dev.vars", ["# KEY_SECRET=x", 'KEY_SECRET="a"', "export TOKENS = b", 'KEY_SECRET="c"']);
  expect(lineInDevVars(file, "KEY_SECRET")).toBe(4);
  expect(lineInDevVars(file, "TOKENS")).toBe(3);
  expect(lineInDevVars(file, "SECRET")).toBe(null);
});
