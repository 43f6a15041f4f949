/**
 * `npm run bench -- advisor`: prints how often the advisor's intervals contain the true share, and how often its
 * recommendations meet their goals, for each kind of traffic. Every run prints the same figures. `--write` writes the
 * tables into the page.
 */
import { advisorPage, coverageDocs, measureAllSizes } from "../advisor/search/size-coverage.ts";
import { writeGenerated } from "./generated.ts";
import { readOptions, writeOption } from "./options.ts";

const { write } = readOptions("advisor", { write: writeOption(advisorPage) });
const docs = coverageDocs(measureAllSizes());
if (write) writeGenerated(docs);
else console.log(Object.values(docs.pages).flat().join("\n\n"));
