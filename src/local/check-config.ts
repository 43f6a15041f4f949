/**
 * `npm run check-config`: says what the Worker would say of its variables, without deploying it.
 *
 * Options: --config <file>, --env <name>, and --secrets-deployed, for secrets that are not at hand because they are set
 * in the deployment, where `wrangler deploy` looks for them.
 */
import type { Config } from "../config/index.ts";
import { formatWindow } from "../strategies/index.ts";
import { readOptions } from "./command.ts";
import { readConfig, readSettings, warningsOf } from "./settings.ts";

/** https://developers.cloudflare.com/workers/platform/limits/#environment-variables */
const largestVariableBytes = 5 * 1024;

const options = readOptions({
  config: { type: "string" },
  env: { type: "string" },
  "secrets-deployed": { type: "boolean", default: false },
});

const settings = readSettings(options);
const standIn = options["secrets-deployed"] ? deployedSecrets(settings.listed) : {};
const variables = { ...standIn, ...settings.secrets, ...settings.vars };
const { config, problems } = readConfig(variables);
const lines = [...sizeProblems(settings.vars), ...problems];
const warnings = [...warningsOf(settings), ...(config?.warnings ?? [])];
for (const line of [...lines, ...warnings]) console.error(line);
if (config !== null && lines.length === 0) console.log(summary(config));
process.exitCode = lines.length === 0 ? 0 : 1;

/** What stands for secrets whose values are not at hand: `JWT_KEY` is one when it is listed as one. */
function deployedSecrets(listed: readonly string[]): Record<string, string> {
  const names = ["KEY_SECRET", ...listed.filter((name) => name === "JWT_KEY")];
  return Object.fromEntries(names.map((name) => [name, `${name} is set in the deployment alone`]));
}

function sizeProblems(written: Readonly<Record<string, unknown>>): string[] {
  return Object.entries(written).flatMap(([name, value]) => {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    const sizeBytes = Buffer.byteLength(text);
    return sizeBytes <= largestVariableBytes
      ? []
      : `${name} is ${sizeBytes} bytes long: accepted are ${largestVariableBytes}; policies may go on in POLICIES_2, POLICIES_3, …`;
  });
}

function summary({ policies, origin }: Config): string {
  const names = policies.map(({ name, limits, exceptions, isDryRun }) => {
    const each = limits.map(
      (limit) => `${limit.limit} per ${formatWindow(limit)}, ${limit.strategy}`,
    );
    const { overrides, allow, deny } = exceptions;
    const notes = [
      ...(isDryRun ? ["dry run"] : []),
      ...counted({ overriding: overrides, allowed: allow, denied: deny }),
    ];
    return `  ${name}: ${each.join("; ")}${notes.length > 0 ? ` (${notes.join(", ")})` : ""}`;
  });
  const where = { url: "", route: "", none: " There is no ORIGIN: only /check is served." }[
    origin.kind
  ];
  return `The configuration is sound.${where}\n${names.join("\n")}`;
}

/** How many there are of each, where there are any. */
function counted(lists: Readonly<Record<string, readonly unknown[]>>): string[] {
  return Object.entries(lists).flatMap(([name, list]) =>
    list.length === 0 ? [] : [`${list.length} ${name}`],
  );
}
