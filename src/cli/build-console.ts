/** `npm run console:build`: builds the console. `npm start`, `npm test` and `npm run deploy` do it too. */
import { parseCommandLine, runCommand } from "./command.ts";
import { buildConsole } from "./console-build.ts";

parseCommandLine({});
await runCommand(buildConsole);
