/**
 * `npm run bench -- shares`: prints which requests a shared limit denies, by how long a key counts as active. Every run
 * prints the same table. `--write` writes the table and its plot into the page.
 */
import { measureTenants } from "../simulation/tenants.ts";
import { writeGenerated } from "./generated.ts";
import { readOptions, writeOption } from "./options.ts";
import { sharesDocs, sharesPage, sharesTable } from "./shares-page.ts";

const { write } = readOptions("shares", { write: writeOption(sharesPage) });

const measured = measureTenants();
if (write) writeGenerated(sharesDocs(measured));
else console.log(sharesTable(measured));
