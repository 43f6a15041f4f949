/**
 * `npm run bench -- simulate`: prints how much a key is over- and under-admitted. Every run prints the same table.
 * `--write` writes it and its plot into the page.
 */
import { writeGenerated } from "../tools/generated.ts";
import { readOptions, writeOption } from "../tools/options.ts";
import { measureAdmission } from "./admission.ts";
import { admissionDocs, admissionPage, admissionTable } from "./admission-page.ts";

const { write } = readOptions("simulate", { write: writeOption(admissionPage) });

const measured = await measureAdmission();
if (write) writeGenerated(admissionDocs(measured));
else console.log(admissionTable(measured));
