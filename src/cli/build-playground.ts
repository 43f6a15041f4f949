/** `npm run playground:build`: builds the playground as one static page. */
import { parseCommandLine, runCommand } from "./command.ts";
import { buildPlayground } from "./console-build.ts";

parseCommandLine({});
await runCommand(async () => {
  console.log(`The playground is ${await buildPlayground()}`);
});
