/** `npm run check-config`: reports what the Worker would report about its variables, without deploying it. */
import { check, type Findings, summary } from "./check.ts";
import { readOptions, runCommand } from "./command.ts";
import {
  demoVariables,
  deployedVariables,
  isDemo,
  localVariables,
  readSettings,
  type Settings,
} from "./settings.ts";
import { sourceOf, sourceOptions } from "./source.ts";

const { "secrets-deployed": areSecretsDeployed, ...values } = readOptions({
  ...sourceOptions,
  "secrets-deployed": {
    type: "boolean",
    default: false,
    about: "Do not require local values of secrets that are set in the deployment.",
  },
});

const demoNote =
  "The demo is in effect, because no limits are set: npm start limits each client address to 5 requests per 10 seconds. " +
  "Set LIMITS or POLICIES before you deploy.";

await runCommand(() => {
  const settings = readSettings(sourceOf(values));
  report(check(settings, variablesOf(settings)));
  if (isDemoChecked(settings) && process.exitCode === 0) console.log(demoNote);
});

/** A deployment has no demo: there, missing limits are a problem. */
function isDemoChecked(settings: Settings): boolean {
  return !areSecretsDeployed && isDemo(settings);
}

function variablesOf(settings: Settings): Record<string, unknown> {
  if (areSecretsDeployed) return deployedVariables(settings);
  return isDemoChecked(settings) ? demoVariables(settings) : localVariables(settings);
}

function report({ config, problems, warnings }: Findings): void {
  for (const line of [...problems, ...warnings]) console.error(line);
  if (config !== null && problems.length === 0) console.log(summary(config));
  process.exitCode = problems.length === 0 ? 0 : 1;
}
