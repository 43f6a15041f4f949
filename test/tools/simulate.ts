/**
 * `npm run bench -- simulate`: prints how much each consistency over-admits and under-admits a key. Every run prints
 * the same table. `--write` writes the table and its plot into the page.
 */
import { writeGenerated } from "./generated.ts";
import { readOptions, writeOption } from "./options.ts";
import { measureAdmission } from "../simulation/admission.ts";
import { admissionDocs, admissionPage, admissionTable } from "./simulate-page.ts";

const { write } = readOptions("simulate", { write: writeOption(admissionPage) });

const measured = await measureAdmission();
if (write) writeGenerated(admissionDocs(measured));
else console.log(admissionTable(measured));
