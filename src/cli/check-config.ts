/** `npm run check-config`: prints the configuration problems that prevent a deployment, without deploying. */
import { checkDeployment, summary } from "./configuration-check.ts";
import { parseCommandLine, runCommand } from "./command.ts";
import { readSettings } from "./settings.ts";
import { checkOptions, configurationSource } from "./configuration-source.ts";

const values = parseCommandLine({
  ...checkOptions,
  "secrets-deployed": {
    type: "boolean",
    default: false,
    about: "Has no effect: required secrets need not be set on this machine.",
  },
});

await runCommand(() => {
  const { config, lines, warnings } = checkDeployment(readSettings(configurationSource(values)));
  for (const line of [...lines, ...warnings]) console.error(line);
  if (config !== null && lines.length === 0) console.log(summary(config));
  process.exitCode = lines.length === 0 ? 0 : 1;
});
