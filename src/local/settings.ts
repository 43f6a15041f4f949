/** The variables that a Worker would get, read where a developer writes them: wrangler.toml and `.dev.vars`. */
import { unstable_readConfig } from "wrangler";
import { ConfigProblems, describeProblem, parseConfig } from "../config/index.ts";

export interface Source {
  /** Path of wrangler.toml; the one of this folder when left out. */
  readonly config?: string | undefined;
  /** A named environment of it. */
  readonly env?: string | undefined;
}

/** @throws Error when the file cannot be read as wrangler configuration */
export function readVars({ config = "wrangler.toml", env }: Source): Record<string, unknown> {
  const { vars } = unstable_readConfig({ config, ...(env !== undefined && { env }) });
  return { ...vars };
}

/** What the Worker would say of its variables, a line each. */
export function problemsIn(variables: Readonly<Record<string, unknown>>): string[] {
  try {
    parseConfig(variables);
    return [];
  } catch (error) {
    if (!(error instanceof ConfigProblems)) throw error;
    return error.problems.map(describeProblem);
  }
}
