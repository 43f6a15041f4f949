/** Reads the variables and secrets of a Worker from the wrangler configuration and `.dev.vars`. */
import { existsSync, readFileSync } from "node:fs";
import { parseEnv } from "node:util";
import { type Unstable_Config, unstable_getVarsForDev, unstable_readConfig } from "wrangler";
import { type AdminApi, isLocalUrl, serverUrl, tokenVariable } from "./admin-api.ts";
import { CommandError, messageOf } from "./command.ts";
import {
  type ConfigurationSource,
  configurationSource,
  readDevVars,
  type SourceValues,
} from "./configuration-source.ts";
import { isKnownVariable } from "../policy/vars/known-variables.ts";
import { readPath } from "../policy/vars/admin.ts";
import { hasLimits } from "../policy/vars/policies.ts";
import { readAdminTokens } from "../policy/vars/secrets.ts";
import { VariableReader } from "../policy/vars/variables.ts";
import { isRecord, jsonOrNull } from "../validation/json.ts";

export interface Settings {
  readonly source: ConfigurationSource;
  /** The configuration of the selected environment, as wrangler reads it. */
  readonly wrangler: Unstable_Config;
  readonly vars: Readonly<Record<string, unknown>>;
  /** The secrets of a local Worker, from `.dev.vars` or the process environment. */
  readonly secrets: Readonly<Record<string, string>>;
  /** Secrets to upload with the deployment. */
  readonly uploadedSecrets: Readonly<Record<string, string>>;
  readonly requiredSecrets: readonly string[];
  /** Names in `.dev.vars` that the Worker never gets, because neither `[secrets]` nor the variables list them. */
  readonly ignoredDevVars: readonly string[];
}

/**
 * Secrets that a local Worker reads from `.dev.vars` even if `[secrets]` does not list them, because deployments do not
 * need them.
 */
const optionalSecrets: readonly string[] = ["ADMIN_TOKENS"];

/** @throws CommandError when the configuration cannot be read or has no such environment */
export function readSettings(source: ConfigurationSource): Settings {
  const wrangler = readConfiguration(source);
  const { required } = wrangler.secrets ?? {};
  const requiredSecrets: readonly string[] = required ?? [];
  const isPassedToWorker = (name: string): boolean =>
    required === undefined ||
    requiredSecrets.includes(name) ||
    optionalSecrets.includes(name) ||
    Object.hasOwn(wrangler.vars, name);
  return {
    source,
    wrangler,
    vars: { ...wrangler.vars, ...source.vars },
    secrets: readLocalSecrets(wrangler, source),
    uploadedSecrets: readUploadedSecrets(source),
    requiredSecrets,
    ignoredDevVars: Object.keys(readDevVars(source)).filter((name) => !isPassedToWorker(name)),
  };
}

/** The variables of a local Worker. Secrets replace variables of the same name. */
export const localVariables = ({ vars, secrets }: Settings): Record<string, unknown> => ({
  ...vars,
  ...secrets,
});

/**
 * The variables of a deployed Worker. The values of deployed secrets cannot be read. The local value of a required
 * secret stands in for it, or else a valid placeholder.
 */
export function deployedVariables(settings: Settings): Record<string, unknown> {
  const { vars, secrets, uploadedSecrets, requiredSecrets } = settings;
  const placeholders = ["KEY_SECRET", ...requiredSecrets].map((name) => [name, placeholderFor(name)]);
  // Other lines of `.dev.vars` apply to local runs only.
  const local = Object.entries(secrets).filter(([name]) => requiredSecrets.includes(name));
  return { ...Object.fromEntries([...placeholders, ...local]), ...uploadedSecrets, ...vars };
}

const placeholderPrefix = "the-value-of-the-deployed-secret-";

/** A valid value for a secret that cannot be read; null where the configuration is valid without it. */
function placeholderFor(name: string): unknown {
  const text = `${placeholderPrefix}${name.toLowerCase()}`;
  if (/^POLICIES(?:_\d+)?$/.test(name)) return [{ name: text, limits: "1/second" }];
  if (name === "LIMITS") return "1/second";
  return isKnownVariable(name) && !textSecrets.has(name) ? null : text;
}

/** Secrets for which any visible text is valid. */
const textSecrets: ReadonlySet<string> = new Set([
  "KEY_SECRET",
  "CHECK_TOKENS",
  "ADMIN_TOKENS",
  "ORIGIN_SECRET",
  "JWT_KEY",
]);

/** The name of the secret that a placeholder policy stands for; null for every other policy. */
export const secretOfPlaceholder = (policyName: string): string | null =>
  policyName.startsWith(placeholderPrefix) ? policyName.slice(placeholderPrefix.length).toUpperCase() : null;

/**
 * Whether neither a variable nor a secret sets limits. A required secret counts as set: if POLICIES is one and is
 * missing, that is a problem, and no reason to use the demo limits.
 */
export const usesDemoLimits = ({
  vars,
  secrets,
  requiredSecrets,
}: Pick<Settings, "vars" | "secrets" | "requiredSecrets">): boolean =>
  !hasLimits({
    ...Object.fromEntries(requiredSecrets.map((name) => [name, name])),
    ...vars,
    ...secrets,
  });

function readConfiguration(source: ConfigurationSource): Unstable_Config {
  const { file, environment, environmentOption } = source;
  // Without this check, wrangler would use the top level for an unknown environment.
  const { definedEnvironments = [] } = readEnvironment(source, "", true);
  if (environment !== "" && !definedEnvironments.includes(environment)) {
    const expected =
      definedEnvironments.length === 0
        ? `no environment, because ${file} defines none`
        : `an environment of ${file} (${definedEnvironments.map((name) => `"${name}"`).join(", ")})`;
    throw new CommandError(`${environmentOption}: expected ${expected}, got "${environment}"`);
  }
  return readEnvironment(source, environment, false);
}

function readEnvironment({ file }: ConfigurationSource, environment: string, hideWarnings: boolean): Unstable_Config {
  if (!existsSync(file)) throw new CommandError(`${file} does not exist.`);
  try {
    return unstable_readConfig({ config: file, env: environment }, { hideWarnings });
  } catch (error) {
    throw new CommandError(`${file}${lineSuffix(error)}: ${messageOf(error)}`, { cause: error });
  }
}

/** The line number of a syntax error, as in `:3`. wrangler's errors have it outside of their message. */
function lineSuffix(error: unknown): string {
  const location: unknown = error instanceof Error ? Reflect.get(error, "location") : undefined;
  return isRecord(location) && "line" in location ? `:${String(location["line"])}` : "";
}

/** wrangler reads the secrets: thus the checked secrets are those that the local Worker gets. */
function readLocalSecrets({ vars, secrets }: Unstable_Config, source: ConfigurationSource): Record<string, string> {
  const { file, environment } = source;
  const env = environment === "" ? undefined : environment;
  const present = readDevVars(source);
  // Only optional secrets with a value are listed: wrangler warns of a listed secret that is missing.
  const optional = optionalSecrets.filter((name) => present[name]);
  const listed = secrets && { ...secrets, required: [...(secrets.required ?? []), ...optional] };
  const bindings = unstable_getVarsForDev(file, undefined, vars, env, true, listed);
  return Object.fromEntries(
    Object.entries(bindings).flatMap(([name, { type, value }]) => (type === "secret_text" ? [[name, value]] : [])),
  );
}

/**
 * Reads `--secrets-file`, which is JSON or has the format of `.dev.vars`. wrangler itself reports an unreadable file.
 */
function readUploadedSecrets({ secretsFile }: ConfigurationSource): Record<string, string> {
  if (secretsFile === null || !existsSync(secretsFile)) return {};
  const text = readFileSync(secretsFile, "utf8");
  const values: unknown = jsonOrNull(text) ?? parseEnv(text);
  if (!isRecord(values)) return {};
  return Object.fromEntries(
    Object.entries(values).flatMap(([name, value]) => (typeof value === "string" ? [[name, value]] : [])),
  );
}

/** @throws CommandError when the URL is invalid or there is no token */
export function adminApiOf(values: SourceValues & { url: string; token?: string | undefined }): AdminApi {
  const server = serverUrl(values.url);
  const variables = localVariables(readSettings(configurationSource(values)));
  const path = readPath(new VariableReader(variables, () => undefined), "ADMIN_PATH");
  const token = values.token ?? process.env[tokenVariable] ?? localToken(server, variables);
  return { url: `${server.origin}${path}/api`, token };
}

/** The first token in the local secrets that has the right to read. It is never sent to another machine. */
function localToken(server: URL, variables: Readonly<Record<string, unknown>>): string {
  const tokens = readAdminTokens(new VariableReader(variables, () => undefined));
  const token = tokens.find(({ may }) => may.has("read"));
  if (!isLocalUrl(server)) {
    throw new CommandError(
      `No token for ${server.origin}: expected --token or ${tokenVariable}, since tokens of .dev.vars are sent to this machine only.`,
    );
  }
  if (token !== undefined) return token.token;
  throw new CommandError(
    `No token: expected --token, ${tokenVariable}, or a token with the right read in ADMIN_TOKENS of .dev.vars, which npm start generates.`,
  );
}
