/** `npm run bench -- simulate`: prints how much a key is over- and under-admitted. Every run prints the same table. */
import { readOptions } from "../tools/options.ts";
import { markdownTable } from "../tools/table.ts";
import { admissionHeader, admissionRow, measureAdmission } from "./admission.ts";

readOptions("simulate", {});

const rows = (await measureAdmission()).map(admissionRow);
console.log(markdownTable(admissionHeader, rows));
