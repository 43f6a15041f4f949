/** `npm run check-config`: prints the configuration problems that the Worker would report, without deploying it. */
import { checkConfiguration, summary } from "./configuration-check.ts";
import { parseCommandLine, runCommand } from "./command.ts";
import { demoVariables, deployedVariables, localVariables, readSettings, usesDemoLimits } from "./settings.ts";
import { configurationSource, sourceOptions } from "./configuration-source.ts";

const { "secrets-deployed": areSecretsDeployed, ...values } = parseCommandLine({
  ...sourceOptions,
  "secrets-deployed": {
    type: "boolean",
    default: false,
    about: "Accept required secrets that are set in the deployment only.",
  },
});

const demoNote =
  "No limits are set. npm start uses the demo limits: 5 requests per 10 seconds for each client address. " +
  "Set LIMITS or POLICIES before you deploy.";

await runCommand(() => {
  const settings = readSettings(configurationSource(values));
  // A deployment has no demo: missing limits are a problem there.
  const isDemo = !areSecretsDeployed && usesDemoLimits(settings);
  const localOf = isDemo ? demoVariables : localVariables;
  const variables = areSecretsDeployed ? deployedVariables(settings) : localOf(settings);
  const { config, problems, warnings } = checkConfiguration(settings, variables);
  for (const line of [...problems, ...warnings]) console.error(line);
  if (config !== null && problems.length === 0) console.log(summary(config));
  if (isDemo && problems.length === 0) console.log(demoNote);
  process.exitCode = problems.length === 0 ? 0 : 1;
});
