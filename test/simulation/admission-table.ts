/** `npm run simulate`: how much more or less than its limit a key is let have; the same at every run. */
import { parseCommandLine } from "../../src/local/command.ts";
import { markdownTable } from "../tools/table.ts";
import { admissionHeader, admissionRow, measureAdmission } from "./admission.ts";

parseCommandLine({});

const rows = (await measureAdmission()).map(admissionRow);
console.log(markdownTable(admissionHeader, rows));
