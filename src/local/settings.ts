/** The variables that a Worker would get, read where a developer writes them: wrangler.toml and `.dev.vars`. */
import { unstable_readConfig } from "wrangler";
import {
  type Config,
  ConfigProblems,
  describeProblem,
  hasLimits,
  parseConfig,
} from "../config/index.ts";
import { fail, messageOf } from "./command.ts";
import { readDevVars } from "./dev-vars.ts";

export interface Source {
  /** Path of wrangler.toml; the one of this folder when left out. */
  readonly config?: string | undefined;
  /** A named environment of it. */
  readonly env?: string | undefined;
}

export interface Settings {
  readonly vars: Readonly<Record<string, unknown>>;
  /** Of `.dev.vars` and the environment, those that wrangler passes on to the Worker. */
  readonly secrets: Readonly<Record<string, string>>;
  /** The names under `[secrets]`. */
  readonly listed: readonly string[];
  /** Names in `.dev.vars` that the Worker never gets: not listed under `[secrets]`. */
  readonly unlisted: readonly string[];
}

/** Ends the command when the file cannot be read as wrangler configuration. */
export function readSettings({ config = "wrangler.toml", env }: Source): Settings {
  const { vars, secrets } = readFile(config, env);
  const listed: readonly string[] = secrets?.required ?? [];
  const devVars = readDevVars();
  const given: Record<string, string | undefined> = { ...process.env, ...devVars };
  return {
    vars: { ...vars },
    secrets: Object.fromEntries(
      listed.flatMap((name) => (given[name] ? [[name, given[name]]] : [])),
    ),
    listed,
    unlisted: Object.keys(devVars).filter((name) => !listed.includes(name)),
  };
}

function readFile(config: string, env: string | undefined): ReturnType<typeof unstable_readConfig> {
  try {
    return unstable_readConfig({ config, ...(env !== undefined && { env }) });
  } catch (error) {
    return fail(`${config}${lineOf(error)}: ${messageOf(error)}`);
  }
}

/** Where a file could not be parsed, as wrangler's errors tell it. */
function lineOf(error: unknown): string {
  const location: unknown = error instanceof Error ? Reflect.get(error, "location") : undefined;
  return typeof location === "object" && location !== null && "line" in location
    ? `:${String(location.line)}`
    : "";
}

/**
 * Whether the demo limits are in effect: no limits are set, neither as variables nor as secrets. A secret that is listed
 * and not set yet is a missing secret, and no reason to limit by something else.
 */
export const isDemo = ({ vars, secrets, listed }: Settings): boolean =>
  !hasLimits({ ...Object.fromEntries(listed.map((name) => [name, name])), ...secrets, ...vars });

/** What the Worker would make of its variables, or a line for each of their problems. */
export function readConfig(
  variables: Readonly<Record<string, unknown>>,
):
  | { readonly config: Config; readonly problems: [] }
  | { readonly config: null; readonly problems: string[] } {
  try {
    return { config: parseConfig(variables), problems: [] };
  } catch (error) {
    if (!(error instanceof ConfigProblems)) throw error;
    return { config: null, problems: error.problems.map(describeProblem) };
  }
}

/** A line for each secret that is set and not passed on. */
export const warningsOf = ({ unlisted }: Settings): string[] =>
  unlisted.map(
    (name) =>
      `${name} is in .dev.vars, but not listed under [secrets] in wrangler.toml: the Worker does not get it.`,
  );
