/**
 * `npm run bench -- simulate`: prints how much a key is over- and under-admitted. Every run prints the same table.
 * `--write` writes it and its plot into the page.
 */
import { writeGenerated } from "./generated.ts";
import { readOptions, writeOption } from "./options.ts";
import { measureAdmission } from "../simulation/admission.ts";
import { admissionDocs, admissionPage, admissionTable } from "./simulate-page.ts";

const { write } = readOptions("simulate", { write: writeOption(admissionPage) });

const measured = await measureAdmission();
if (write) writeGenerated(admissionDocs(measured));
else console.log(admissionTable(measured));
