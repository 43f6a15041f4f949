/** `npm run check-config`: reports what the Worker would report about its variables, without deploying it. */
import { check, type Findings, summary } from "./check.ts";
import { readOptions, runCommand } from "./command.ts";
import { deployedVariables, localVariables, readSettings } from "./settings.ts";
import { sourceOf, sourceOptions } from "./source.ts";

const { "secrets-deployed": areSecretsDeployed, ...values } = readOptions({
  ...sourceOptions,
  "secrets-deployed": {
    type: "boolean",
    default: false,
    about: "Do not require local values of secrets that are set in the deployment.",
  },
});

await runCommand(() => {
  const settings = readSettings(sourceOf(values));
  const variables = areSecretsDeployed ? deployedVariables(settings) : localVariables(settings);
  report(check(settings, variables));
});

function report({ config, problems, warnings }: Findings): void {
  for (const line of [...problems, ...warnings]) console.error(line);
  if (config !== null && problems.length === 0) console.log(summary(config));
  process.exitCode = problems.length === 0 ? 0 : 1;
}
