/** Which configuration a command uses: a file, an environment in it, and variables from the command line. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseEnv } from "node:util";
import type { Options } from "./command.ts";

export interface Source {
  /** Path of the wrangler configuration. */
  readonly file: string;
  /** A named environment; empty for the top level. */
  readonly environment: string;
  /** Where the environment was named, for messages. */
  readonly namedBy: string;
  /** Variables from the command line, which replace those in the file. */
  readonly vars: Readonly<Record<string, string>>;
  /** A file of secrets that are uploaded with a deployment. */
  readonly secretsFile: string | null;
}

export const sourceOptions = {
  config: { type: "string", short: "c", value: "file", about: "The wrangler configuration." },
  env: {
    type: "string",
    short: "e",
    value: "name",
    about: "A named environment in it; CLOUDFLARE_ENV when left out.",
  },
} as const satisfies Options;

/** Options as a command line has them. */
export interface SourceValues {
  readonly config?: string | undefined;
  readonly env?: string | undefined;
  readonly var?: readonly string[] | undefined;
  readonly "secrets-file"?: string | undefined;
}

/** @param folder where the command runs; its `.env` files add to the environment, as they do in wrangler */
export function sourceOf(
  values: SourceValues,
  processEnv: Readonly<Record<string, string | undefined>> = process.env,
  folder = ".",
): Source {
  const named = withoutEquals(values.env);
  return {
    file: withoutEquals(values.config) ?? defaultFile(folder),
    environment: named ?? processEnv["CLOUDFLARE_ENV"] ?? environmentOfFiles(folder) ?? "",
    namedBy: named === undefined ? "CLOUDFLARE_ENV" : "--env",
    vars: varsOf(values.var ?? []),
    secretsFile: values["secrets-file"] ?? null,
  };
}

/** `NAME:value` pairs as wrangler splits them: at the first colon. */
export function varsOf(pairs: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const [name = "", ...rest] = pair.split(":");
      return [name, rest.join(":")];
    }),
  );
}

/** `-e=staging` is `staging` for wrangler and `=staging` for Node's parser. */
const withoutEquals = (text: string | undefined): string | undefined => text?.replace(/^=/, "");

/** The file that wrangler looks for first. */
function defaultFile(folder: string): string {
  const names = ["wrangler.json", "wrangler.jsonc", "wrangler.toml"];
  return names.find((name) => existsSync(join(folder, name))) ?? "wrangler.toml";
}

/** wrangler loads these files into its own environment; the later one wins. */
function environmentOfFiles(folder: string): string | undefined {
  const names = [".env", ".env.local"].flatMap((name) => {
    const file = join(folder, name);
    return existsSync(file) ? (parseEnv(readFileSync(file, "utf8"))["CLOUDFLARE_ENV"] ?? []) : [];
  });
  return names.at(-1);
}
