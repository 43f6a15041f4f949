/** Configurations of a test's own, and what is wrong with them. */
import { type Config, parseConfig } from "../../src/config/index.ts";
import { type ConfigProblem, ConfigProblems } from "../../src/validation/problems.ts";

export type Variables = Readonly<Record<string, unknown>>;

/** The least that makes a configuration whole. */
export const whole: Variables = { LIMITS: "10/minute", KEY_SECRET: "the tests' secret" };

/** A configuration of some variables, on top of a secret; `LIMITS` too unless there are other policies. */
export function configOf(variables: Variables): Config {
  const { LIMITS, ...others } = whole;
  return parseConfig({ ...others, ...(!("POLICIES" in variables) && { LIMITS }), ...variables });
}

/** What is wrong with exactly these variables; none when nothing is. */
export function problemsIn(variables: Variables): readonly ConfigProblem[] {
  try {
    parseConfig(variables);
    return [];
  } catch (error) {
    if (error instanceof ConfigProblems) return error.problems;
    throw error;
  }
}

/** Where something is wrong, each place once, as `POLICIES [0].name`. */
export const placesOf = (variables: Variables): string[] => [
  ...new Set(problemsIn(variables).map(({ variable, field }) => `${variable} ${field}`.trim())),
];

/** A configuration as plain values that can be compared: patterns as they are written. */
export function plain(config: Config): unknown {
  const { origin, policies, ...others } = config;
  return {
    ...others,
    origin: origin.kind === "url" ? origin.url.href : origin.kind,
    policies: policies.map(({ match, ...policy }) => ({
      ...policy,
      methods: match.methods === null ? null : [...match.methods],
      path: match.path?.pathname ?? null,
      host: match.host?.hostname ?? null,
      headers: match.headers === null ? null : Object.fromEntries(match.headers),
    })),
  };
}
