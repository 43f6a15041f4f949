/** `npm run build`: builds the npm package. `npm pack` does it too. */
import { parseCommandLine, runCommand } from "./command.ts";
import { buildPackage } from "./package-build.ts";

parseCommandLine({});
await runCommand(buildPackage);
