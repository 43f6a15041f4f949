/**
 * Builds the console, the playground as one static page, or the npm package: `npm run console:build`,
 * `npm run playground:build` and `npm run build`, which `npm pack` runs too.
 */
import { CommandError, parseArgument, runCommand } from "./command.ts";
import { buildConsole, buildPlayground } from "./console-build.ts";

const { argument } = parseArgument("<console|playground|package>", {});

await runCommand(async () => {
  if (argument === "console") return buildConsole();
  if (argument === "playground") return console.log(`The playground is ${await buildPlayground()}`);
  if (argument !== "package") throw new CommandError(`Expected console, playground or package, got "${argument}".`);
  // Imported here because it loads rolldown, which the other builds do not need.
  const { buildPackage } = await import("./package-build.ts");
  return buildPackage();
});
