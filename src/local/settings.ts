/** The variables that a Worker would get, read where a developer writes them: wrangler.toml and `.dev.vars`. */
import { existsSync, readFileSync } from "node:fs";
import { parseEnv } from "node:util";
import { type Unstable_Config, unstable_getVarsForDev, unstable_readConfig } from "wrangler";
import { hasLimits, isKnownVariable } from "../config/index.ts";
import { CommandError, messageOf } from "./command.ts";
import { madeSecrets, readDevVars } from "./dev-vars.ts";
import type { Source } from "./source.ts";
import { isRecord } from "../validation/problems.ts";

export interface Settings {
  readonly source: Source;
  /** The configuration of the chosen environment, as wrangler reads it. */
  readonly wrangler: Unstable_Config;
  /** As they are deployed. */
  readonly vars: Readonly<Record<string, unknown>>;
  /** Values that wrangler passes to a local Worker as secrets, from `.dev.vars` or the environment of the process. */
  readonly secrets: Readonly<Record<string, string>>;
  /** Secrets that are uploaded with the deployment. */
  readonly uploaded: Readonly<Record<string, string>>;
  /** The names under `[secrets]`. */
  readonly listed: readonly string[];
  /** Names in `.dev.vars` that the Worker never gets: neither listed under `[secrets]` nor variables. */
  readonly unlisted: readonly string[];
}

/** @throws CommandError when the configuration cannot be read, or has no such environment */
export function readSettings(source: Source): Settings {
  const wrangler = readFile(source);
  const { required } = wrangler.secrets ?? {};
  const listed: readonly string[] = required ?? [];
  const isPassedOn = (name: string): boolean =>
    required === undefined || listed.includes(name) || Object.hasOwn(wrangler.vars, name);
  return {
    source,
    wrangler,
    vars: { ...wrangler.vars, ...source.vars },
    secrets: localSecrets(wrangler, source),
    uploaded: uploadedSecrets(source),
    listed,
    unlisted: Object.keys(readDevVars(source)).filter((name) => !isPassedOn(name)),
  };
}

/** What a local Worker gets: `.dev.vars` replaces variables. */
export const localVariables = ({ vars, secrets }: Settings): Record<string, unknown> => ({
  ...vars,
  ...secrets,
});

/**
 * What a deployed Worker gets. Secrets are not at hand, because they are set in the deployment: local values stand for
 * them, and values that make no difference where there is none.
 */
export function deployedVariables(settings: Settings): Record<string, unknown> {
  const { vars, secrets, uploaded, listed } = settings;
  const standIns = ["KEY_SECRET", ...listed].map((name) => [name, standInFor(name)]);
  // Other lines of `.dev.vars` apply to local runs only.
  const local = Object.entries(secrets).filter(([name]) => listed.includes(name));
  return { ...Object.fromEntries([...standIns, ...local]), ...uploaded, ...vars };
}

/** Small enough to be refused within a few requests and let in again within a few seconds. */
export const demoPolicy = { LIMITS: "5/10s", STRATEGY: "fixed-window", KEY: "ip" };

/** What a local Worker gets while the demo is in effect. `npm start` makes the secrets that are missing. */
export const demoVariables = (settings: Settings): Record<string, unknown> => ({
  ...Object.fromEntries(madeSecrets.map((name) => [name, standInFor(name)])),
  ...localVariables(settings),
  ...demoPolicy,
});

const standInPrefix = "the-value-of-the-deployed-secret-";

/** A valid value in the place of a secret that cannot be read; null where the secret may as well not be set. */
function standInFor(name: string): unknown {
  const text = `${standInPrefix}${name.toLowerCase()}`;
  if (/^POLICIES(?:_\d+)?$/.test(name)) return [{ name: text, limits: "1/second" }];
  if (name === "LIMITS") return "1/second";
  return isKnownVariable(name) && !texts.has(name) ? null : text;
}

/** Secrets that any text of visible characters will do for. */
const texts: ReadonlySet<string> = new Set([
  "KEY_SECRET",
  "CHECK_TOKENS",
  "ORIGIN_SECRET",
  "JWT_KEY",
]);

/** The variable that a policy stands for, whose value cannot be read; null for a policy that was read. */
export const unreadVariable = (policyName: string): string | null =>
  policyName.startsWith(standInPrefix)
    ? policyName.slice(standInPrefix.length).toUpperCase()
    : null;

/**
 * Whether the demo limits are in effect: no limits are set, neither as variables nor as secrets. A secret that is listed
 * and not set yet is a missing secret, and no reason to limit by something else.
 */
export const isDemo = ({
  vars,
  secrets,
  listed,
}: Pick<Settings, "vars" | "secrets" | "listed">): boolean =>
  !hasLimits({ ...Object.fromEntries(listed.map((name) => [name, name])), ...vars, ...secrets });

/** A line for each secret that is set and not passed on, and for an environment that lists no secrets. */
export function warningsOf({ source, wrangler, unlisted }: Settings): string[] {
  const { file, environment } = source;
  const section = environment === "" ? "secrets" : `env.${environment}.secrets`;
  return [
    ...unlisted.map(
      (name) =>
        `${name} is in .dev.vars, but not listed under [${section}] in ${file}: the Worker does not get it.`,
    ),
    ...(wrangler.secrets === undefined
      ? [
          `[${section}] is missing in ${file}: wrangler does not check that KEY_SECRET is set before it deploys.`,
        ]
      : []),
  ];
}

/** A line for each secret that is required and not set. */
export function secretProblems(
  { listed, source: { file } }: Settings,
  variables: Readonly<Record<string, unknown>>,
): string[] {
  const missing = listed.filter((name) => variables[name] === undefined || variables[name] === "");
  return missing.map(
    (name) =>
      `${name} is missing: ${file} requires this secret. Set it in .dev.vars, and for a deployment with npx wrangler secret put ${name}`,
  );
}

/** A line if the environment lacks the binding of the Durable Objects, which environments do not inherit. */
export function bindingProblems({ wrangler, source: { file, environment } }: Settings): string[] {
  if (wrangler.durable_objects.bindings.some(({ name }) => name === "RATE_LIMITER")) return [];
  const section = environment === "" ? "" : `env.${environment}.`;
  const where = environment === "" ? file : `the environment "${environment}" of ${file}`;
  const why = environment === "" ? "" : " Environments do not inherit bindings.";
  return [
    `RATE_LIMITER is missing in ${where}: accepted is [[${section}durable_objects.bindings]] with ` +
      `name = "RATE_LIMITER" and class_name = "RateLimiter".${why}`,
  ];
}

function readFile(source: Source): Unstable_Config {
  const { file, environment, namedBy } = source;
  // Without this read, wrangler would take the top level for an environment that does not exist.
  const { definedEnvironments = [] } = readEnvironment(source, "", { hideWarnings: true });
  if (environment !== "" && !definedEnvironments.includes(environment)) {
    const accepted =
      definedEnvironments.length === 0
        ? `nothing, because ${file} has no environments`
        : `one of the environments of ${file}: ${definedEnvironments.map((name) => `"${name}"`).join(", ")}`;
    throw new CommandError(`${namedBy} is "${environment}": accepted is ${accepted}`);
  }
  return readEnvironment(source, environment, {});
}

function readEnvironment(
  { file }: Source,
  environment: string,
  options: { hideWarnings?: boolean },
): Unstable_Config {
  if (!existsSync(file)) throw new CommandError(`${file} does not exist.`);
  try {
    return unstable_readConfig({ config: file, env: environment }, options);
  } catch (error) {
    throw new CommandError(`${file}${lineOf(error)}: ${messageOf(error)}`, { cause: error });
  }
}

/** The line of a syntax error, which wrangler's errors carry beside their message. */
function lineOf(error: unknown): string {
  const location: unknown = error instanceof Error ? Reflect.get(error, "location") : undefined;
  return isRecord(location) && "line" in location ? `:${String(location["line"])}` : "";
}

/** wrangler itself reads them, so that a Worker gets under `npm start` exactly what is checked here. */
function localSecrets(
  wrangler: Unstable_Config,
  { file, environment }: Source,
): Record<string, string> {
  const env = environment === "" ? undefined : environment;
  const bindings = unstable_getVarsForDev(
    file,
    undefined,
    wrangler.vars,
    env,
    true,
    wrangler.secrets,
  );
  return Object.fromEntries(
    Object.entries(bindings).flatMap(([name, { type, value }]) =>
      type === "secret_text" ? [[name, value]] : [],
    ),
  );
}

/** `--secrets-file` is JSON or lines as in `.dev.vars`. wrangler itself reports a file that it cannot read. */
function uploadedSecrets({ secretsFile }: Source): Record<string, string> {
  if (secretsFile === null || !existsSync(secretsFile)) return {};
  const text = readFileSync(secretsFile, "utf8");
  const values: unknown = jsonOf(text) ?? parseEnv(text);
  if (!isRecord(values)) return {};
  return Object.fromEntries(
    Object.entries(values).flatMap(([name, value]) =>
      typeof value === "string" ? [[name, value]] : [],
    ),
  );
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
