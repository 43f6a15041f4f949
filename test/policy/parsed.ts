/** Builds configurations for tests, and collects their problems. */
import { expect } from "vitest";
import { type Config, parseConfig } from "../../src/policy/vars/config.ts";
import { type ConfigProblem, ConfigProblems } from "../../src/validation/problems.ts";
import { schemaErrors } from "./json-schema.ts";

export type Variables = Readonly<Record<string, unknown>>;

/** A minimal valid configuration. */
export const whole: Variables = { LIMITS: "10/minute", KEY_SECRET: "the tests' secret" };

/** A configuration with these variables, a secret and, unless `POLICIES` is set, `LIMITS`. */
export function configOf(variables: Variables): Config {
  const { LIMITS, ...others } = whole;
  return parsed({ ...others, ...(!("POLICIES" in variables) && { LIMITS }), ...variables });
}

/** The configuration of these variables. Checks that the schema for editors also accepts them. */
function parsed(variables: Variables): Config {
  const config = parseConfig(variables);
  expect(schemaErrors(variables)).toEqual([]);
  return config;
}

/** The problems of exactly these variables, without the names of policies, which one test checks. */
export const problemsIn = (variables: Variables): readonly ConfigProblem[] =>
  namedProblemsIn(variables).map(({ variable, field, value, accepted }) => ({ variable, field, value, accepted }));

/** The problems of exactly these variables. */
export function namedProblemsIn(variables: Variables): readonly ConfigProblem[] {
  try {
    parsed(variables);
    return [];
  } catch (error) {
    if (error instanceof ConfigProblems) return error.problems;
    throw error;
  }
}

/** The places of problems without repetitions, such as `POLICIES [0].name`. */
export const placesOf = (variables: Variables): string[] => [
  ...new Set(problemsIn(variables).map(({ variable, field }) => `${variable} ${field}`.trim())),
];

/** A configuration as values that can be compared: patterns as they were written. */
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
