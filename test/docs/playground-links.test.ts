/**
 * The reference of strategies links to the playground: each link opens the example of its section, with the same
 * decisions.
 */
import { expect, it } from "vitest";
import { referenceExamples } from "../console/playground/reference-examples.ts";
import { decisionsOf, runOf, scenarioOf } from "../console/playground/runs.ts";
import { localPlayground } from "./page-rules.ts";
import { readPage } from "./pages.ts";

const { links, headings, tables } = readPage("docs/reference/strategies.md");

/** The first example of a section: its decisions and the units that remained, in order. */
function documentedDecisions(section: string): string[] {
  const { text } = headings.find(({ slug }) => slug === section) ?? { text: "" };
  const table = tables.find(({ heading, columns }) => heading === text && columns[0] === "at");
  const column = (name: string): number => table?.columns.indexOf(name) ?? -1;
  return (table?.rows ?? []).map((row) => `${row[column("decision")] ?? ""} ${row[column("remaining")] ?? ""}`);
}

/** In the playground, all requests take 3 s. In the page's example, each request states when it ends. */
const slots = ["allowed 1", "allowed 0", "denied 0", "allowed 0", "denied 0", "allowed 0"];

const expectedDecisions = (section: string): string[] =>
  section === "concurrency" ? slots : documentedDecisions(section);

it("the strategies reference links each example in the playground once, in the order of its sections", () => {
  const queries = links.flatMap((link) =>
    link.startsWith(`${localPlayground}?`) ? [link.slice(localPlayground.length + 1)] : [],
  );
  expect(queries).toEqual(Object.values(referenceExamples));
});

it.each(Object.entries(referenceExamples))(
  "the playground decides the example of the section %s as the page states",
  (section, query) => {
    const decisions = decisionsOf(runOf(scenarioOf(query)));
    expect(decisions.length).toBeGreaterThan(4);
    expect(decisions).toEqual(expectedDecisions(section).slice(0, decisions.length));
  },
);
