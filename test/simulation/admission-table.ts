/** `npm run simulate`: prints how much a key is over- and under-admitted. Every run prints the same table. */
import { parseCommandLine } from "../../src/local/command.ts";
import { markdownTable } from "../tools/table.ts";
import { admissionHeader, admissionRow, measureAdmission } from "./admission.ts";

parseCommandLine({});

const rows = (await measureAdmission()).map(admissionRow);
console.log(markdownTable(admissionHeader, rows));
