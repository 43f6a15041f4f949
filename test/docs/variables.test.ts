/** The table of docs/reference/variables.md lists every variable, with a valid example and the real default. */
import { expect, it } from "vitest";
import { variableNames } from "../../src/config/known-variables.ts";
import { configOf } from "../config/harness.ts";
import { readConfiguration } from "./configuration-blocks.ts";
import { fieldsOf, namesOf, valueOf, withDefault } from "./field-table.ts";
import { readPage } from "./pages.ts";

const variables = fieldsOf(readPage("docs/reference/variables.md"), "variable");
const withExample = variables.filter(({ example }) => example.includes(" = "));

it("the page lists every variable and no other", () => {
  expect(namesOf(variables)).toEqual([...variableNames].toSorted());
});

it.each(withExample)("the example of the variable $name is valid", ({ name, example }) => {
  expect(example).toMatch(new RegExp(`^${name} = `));
  const others = name === "STRATEGY" || name === "KEY" ? ['LIMITS = "5/minute"'] : [];
  expect(readConfiguration({ text: [...others, example].join("\n") }).problems).toEqual([]);
});

it.each(withDefault(variables))(
  "the page states the default of the variable $name",
  ({ name, default: fallback }) => {
    expect(configOf({ [name]: valueOf(fallback) })).toEqual(configOf({}));
  },
);
