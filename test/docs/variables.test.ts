/** The table of docs/reference/variables.md lists every variable, with a valid example and the actual default. */
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { variableNames } from "../../src/policy/vars/known-variables.ts";
import { configOf } from "../policy/parsed.ts";
import { readConfiguration } from "./configuration-blocks.ts";
import { fieldsOf, namesOf, valueOf, withDefault } from "./field-table.ts";
import { pageBlock } from "./page-block.ts";
import { readPage } from "./pages.ts";

const variables = fieldsOf(readPage("docs/reference/variables.md"), "variable");
const withExample = variables.filter(({ example }) => example.includes(" = "));

it("the variables page lists every variable and no other", () => {
  expect(namesOf(variables)).toEqual([...variableNames].toSorted());
});

it.each(withExample)("the example of the variable $name is valid", ({ name, example }) => {
  expect(example).toMatch(new RegExp(`^${name} = `));
  const others = name === "STRATEGY" || name === "KEY" ? ['LIMITS = "5/minute"'] : [];
  expect(readConfiguration({ text: [...others, example].join("\n") }).problems).toEqual([]);
});

/** A configuration without the written form of its policies, which differs when a default is written explicitly. */
function read(set: object): unknown {
  const config = configOf({ ...set });
  return { ...config, policies: config.policies.map((policy) => ({ ...policy, written: null })) };
}

it.each(withDefault(variables))("the page states the default of the variable $name", ({ name, default: fallback }) => {
  expect(read({ [name]: valueOf(fallback) })).toEqual(read({}));
});

/** The value of a secret that the page shows as a line of .dev.vars. */
function shownSecret(name: string): string {
  const line = pageBlock("reference/variables", "text figure", `${name}=`);
  const [, value = ""] = new RegExp(`^${name}='(.*)'\n$`).exec(line) ?? [];
  return value;
}

it("the variables page shows a valid secret with overrides for the policy above it", () => {
  const { vars } = readConfiguration({
    text: pageBlock("reference/variables", "toml", '"POLICIES_2"]'),
  });
  const { policies } = configOf({ ...vars, POLICIES_2: shownSecret("POLICIES_2") });
  expect(policies.map(({ lists }) => lists.overrides.length)).toEqual([1]);
});

it("the variables page shows a valid list of tokens", () => {
  const { checkTokens } = configOf({ CHECK_TOKENS: shownSecret("CHECK_TOKENS") });
  expect(checkTokens.map(({ tenant }) => tenant)).toEqual([null, "acme"]);
});

it("the variables page shows a valid list of admin tokens", () => {
  const { admin } = configOf({ ADMIN_TOKENS: shownSecret("ADMIN_TOKENS") });
  expect(admin?.tokens.map(({ name }) => name)).toEqual(["alice", "grafana"]);
});

it("the variables page shows the first line of wrangler.toml", () => {
  const [first] = readFileSync("wrangler.toml", "utf8").split("\n");
  expect(pageBlock("reference/variables", "text figure", "#:schema").trim()).toBe(first);
});
