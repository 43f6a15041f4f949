/** Selects the configuration of a command: a file, an environment in it, variables from the command line, and `.dev.vars`. */
import { randomBytes } from "node:crypto";
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parseArgs, parseEnv } from "node:util";
import { CommandError, type CommandOptions } from "./command.ts";

export interface ConfigurationSource {
  readonly file: string;
  /** The name of an environment; empty for the top level. */
  readonly environment: string;
  /** The option or variable that selected the environment, for error messages. */
  readonly environmentOption: string;
  /** Variables of the command line. They replace those of the file. */
  readonly vars: Readonly<Record<string, string>>;
  /** The path of a file with secrets to upload with a deployment. */
  readonly secretsFile: string | null;
}

export const sourceOptions = {
  config: { type: "string", short: "c", value: "file", about: "The wrangler configuration file." },
  env: {
    type: "string",
    short: "e",
    value: "name",
    about: "An environment of the configuration; defaults to CLOUDFLARE_ENV.",
  },
} as const satisfies CommandOptions;

export interface SourceValues {
  readonly config?: string | undefined;
  readonly env?: string | undefined;
  readonly var?: readonly string[] | undefined;
  readonly "secrets-file"?: string | undefined;
}

/** @param folder the working folder, whose `.env` files can set CLOUDFLARE_ENV, as in wrangler */
export function configurationSource(
  values: SourceValues,
  processEnv: Readonly<Record<string, string | undefined>> = process.env,
  folder = ".",
): ConfigurationSource {
  const named = withoutEquals(values.env);
  return {
    file: withoutEquals(values.config) ?? defaultFile(folder),
    environment: named ?? processEnv["CLOUDFLARE_ENV"] ?? environmentFromFiles(folder) ?? "",
    environmentOption: named === undefined ? "CLOUDFLARE_ENV" : "--env",
    vars: splitPairs(values.var ?? []),
    secretsFile: values["secrets-file"] ?? null,
  };
}

/** Splits `NAME:value` pairs at the first colon, as wrangler does. */
function splitPairs(pairs: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const [name = "", ...rest] = pair.split(":");
      return [name, rest.join(":")];
    }),
  );
}

/** wrangler reads `-e=staging` as `staging`, Node's parser as `=staging`. */
const withoutEquals = (text: string | undefined): string | undefined => text?.replace(/^=/, "");

/** The file that wrangler finds first. */
function defaultFile(folder: string): string {
  const names = ["wrangler.json", "wrangler.jsonc", "wrangler.toml"];
  return names.find((name) => existsSync(join(folder, name))) ?? "wrangler.toml";
}

/** The value of CLOUDFLARE_ENV in `.env` and `.env.local`. As in wrangler, the later file wins. */
function environmentFromFiles(folder: string): string | undefined {
  const names = [".env", ".env.local"].flatMap((name) => {
    const file = join(folder, name);
    return existsSync(file) ? (parseEnv(readFileSync(file, "utf8"))["CLOUDFLARE_ENV"] ?? []) : [];
  });
  return names.at(-1);
}

/** The options of everything that a deployment's configuration consists of. */
export const checkOptions = {
  ...sourceOptions,
  var: {
    type: "string",
    multiple: true,
    value: "NAME:value",
    about: "Set a variable, in place of the one in the file.",
  },
  "secrets-file": {
    type: "string",
    value: "file",
    about: "A file of secrets to upload with the deployment.",
  },
} as const satisfies CommandOptions;

export const deployOptions = {
  ...checkOptions,
  "dry-run": { type: "boolean", about: "Check and build without deploying." },
} as const satisfies CommandOptions;

const singleOptions = ["config", "env", "secrets-file"] as const;

/**
 * Reads the options of `wrangler deploy` that select the configuration, and ignores the others.
 * @throws CommandError when an option has no value, and for `--cwd`, which would select other files for wrangler
 */
export function readDeployOptions(words: readonly string[]): SourceValues {
  const values: { -readonly [Name in keyof SourceValues]: SourceValues[Name] } = {};
  const pairs: string[] = [];
  let isAfterVar = false;
  for (const token of wordTokens(words)) {
    if (token.kind === "positional") {
      // wrangler reads each argument after `--var` as a variable, up to the next option.
      if (isAfterVar) pairs.push(token.value);
      continue;
    }
    isAfterVar = token.kind === "option" && token.name === "var";
    if (token.kind !== "option") continue;
    if (token.name === "cwd") {
      throw new CommandError("--cwd is not supported: run the command in that folder.");
    }
    const name = singleOptions.find((each) => each === token.name);
    if (name === undefined && !isAfterVar) continue;
    if (token.value === undefined) throw new CommandError(`${token.rawName} needs a value.`);
    if (name === undefined) pairs.push(token.value);
    else values[name] = token.value;
  }
  return { ...values, var: pairs };
}

// oxlint-disable-next-line typescript/explicit-function-return-type -- the tokens of Node's parser have no named type
function wordTokens(words: readonly string[]) {
  // wrangler accepts `--secretsFile` for `--secrets-file`.
  const dashed = words.map((word) => word.replace(/^--secretsFile(?==|$)/, () => "--secrets-file"));
  return parseArgs({ args: dashed, options: deployOptions, strict: false, tokens: true }).tokens;
}

/** The generated secrets, each with the comment that explains it in `.dev.vars`. */
const secretPurposes = {
  KEY_SECRET: "The key of the HMACs that stand for client keys outside of the Worker.",
  CHECK_TOKENS: "The bearer token of /check.",
  ADMIN_TOKENS: "The bearer token of the admin API.",
};

export const randomSecret = (): string => randomBytes(24).toString("base64url");

/** The names of the secrets that `npm start` generates, and `npm run deploy` for a Worker that lacks them. */
export const generatedSecrets: readonly string[] = Object.keys(secretPurposes);

/** The files that wrangler may read secrets from. It reads the first that exists. */
export function devVarsFiles({ file, environment }: ConfigurationSource): string[] {
  const general = join(dirname(file), ".dev.vars");
  return environment === "" ? [general] : [`${general}.${environment}`, general];
}

/** The file that wrangler reads, or the one to create. */
export function devVarsFile(source: ConfigurationSource): string {
  const files = devVarsFiles(source);
  return files.find((file) => existsSync(file)) ?? files.at(-1) ?? ".dev.vars";
}

export function readDevVars(source: ConfigurationSource): Record<string, string | undefined> {
  const file = devVarsFile(source);
  return existsSync(file) ? parseEnv(readFileSync(file, "utf8")) : {};
}

/** Adds random values for missing secrets to `.dev.vars`, and changes nothing else in it. */
export function ensureDevVars(source: ConfigurationSource): void {
  const present = readDevVars(source);
  const missing = Object.entries(secretPurposes).filter(([name]) => !present[name]);
  if (missing.length === 0) return;
  const file = devVarsFile(source);
  const lines = missing.map(([name, purpose]) => `# ${purpose}\n${name}="${randomSecret()}"\n`);
  const isUnterminated = existsSync(file) && !/(?:^|\n)$/.test(readFileSync(file, "utf8"));
  appendFileSync(file, (isUnterminated ? "\n" : "") + lines.join(""), { mode: 0o600 });
}
