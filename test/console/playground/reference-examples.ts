/** The examples of the reference of strategies: the query of the link in each section, by the section's anchor. */
import { readFileSync } from "node:fs";

const sections = readFileSync("docs/reference/strategies.md", "utf8").split(/^## /m);

export const referenceExamples: Readonly<Record<string, string>> = Object.fromEntries(
  sections.flatMap((section) => {
    const [, heading = "", query] = /^(.*)\n[^]*\/playground\?([^)]+)\)/.exec(section) ?? [];
    return query === undefined ? [] : [[heading.replaceAll("`", "").replaceAll(" ", "-").toLowerCase(), query]];
  }),
);
