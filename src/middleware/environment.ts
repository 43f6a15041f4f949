/** The runtime of a Worker's environment: its bindings, its secrets, and the policies of its middleware. */
import { type Config, ConfigProblems, deploymentProblems, parseConfig } from "../config/index.ts";
import {
  type Bindings,
  createRuntime,
  reportStartError,
  reportWarnings,
  type Runtime,
} from "../http/runtime.ts";
import type { Failure } from "../http/wire/problems.ts";
import type { StatedPolicy } from "./read-options.ts";

export interface WorkerEnvironment {
  readonly config: Config;
  readonly runtime: Runtime;
}

/** The variables that the middleware reads. All others belong to the user's Worker. */
const ownVariables = [
  "KEY_SECRET",
  "JWT_KEY",
  "JWT_JWKS_URL",
  "JWT_ISSUER",
  "JWT_AUDIENCE",
  "LEGACY_HEADERS",
  "LOG_DENIALS",
  "ADMIN_PATH",
  "ADMIN_HOST",
  "ADMIN_TOKENS",
  "ACCESS_TEAM",
  "ACCESS_AUDIENCE",
  "REVEAL",
  "ALERT_WEBHOOK",
  "ALERT_SECRET",
  "ALERT_DENIED_SHARE",
  "ALERT_KEYS",
] as const;

/** No request reaches it: the middleware has no `/check`. */
const unusedCheckPath = "/.headgate/check";

/**
 * Every policy that was constructed, by its name: the control plane knows all policies of a Worker from the first request
 * on, whichever route receives it.
 */
const constructed = new Map<string, StatedPolicy>();

export function announce(policies: readonly StatedPolicy[]): void {
  for (const policy of policies) constructed.set(policy.name, policy);
}

/** An isolate keeps one `env` object for its life. */
interface KnownEnvironment extends WorkerEnvironment {
  readonly policies: ReadonlyMap<string, StatedPolicy>;
  /** The names of policies that requests have used: the others may still be replaced. */
  readonly used: Set<string>;
}

const environments = new WeakMap<object, KnownEnvironment>();

/**
 * Returns a function that reads the environment of a context, or the failure to answer with. A failure is reported once.
 * @param own policies that the environment must have
 */
export function environmentReader(
  own: readonly StatedPolicy[],
): (env: unknown) => WorkerEnvironment | Failure {
  const failures = new WeakMap<object, Failure>();
  return (value) => {
    const env: object = typeof value === "object" && value !== null ? value : {};
    const known = failures.get(env);
    if (known !== undefined) return known;
    try {
      return environmentOf(env, own);
    } catch (error) {
      const failure = reportStartError(error);
      failures.set(env, failure);
      return failure;
    }
  };
}

/** @throws ConfigProblems for missing bindings and invalid variables, and when two policies have the same name */
function environmentOf(env: object, own: readonly StatedPolicy[]): WorkerEnvironment {
  const known = environments.get(env);
  const isComplete =
    known !== undefined && own.every(({ name, text }) => known.policies.get(name)?.text === text);
  const environment = isComplete ? known : newEnvironment(env, own, known);
  for (const { name } of own) environment.used.add(name);
  return environment;
}

function newEnvironment(
  env: object,
  own: readonly StatedPolicy[],
  known: KnownEnvironment | undefined,
): KnownEnvironment {
  const used = known?.used ?? new Set<string>();
  const taken = own.filter(
    ({ name, text }) => used.has(name) && known?.policies.get(name)?.text !== text,
  );
  if (taken.length > 0) throw new ConfigProblems(taken.map(nameTaken));
  const kept = [...(known?.policies.values() ?? [])].filter(({ name }) => used.has(name));
  const policies = new Map(
    [...constructed.values(), ...kept, ...own].map((policy) => [policy.name, policy]),
  );
  const variables: Record<string, unknown> = { CHECK_PATH: unusedCheckPath };
  for (const name of ownVariables) variables[name] = Reflect.get(env, name);
  const config = parseConfig({
    ...variables,
    POLICIES: [...policies.values()].map(({ written }) => written),
  });
  const runtime = createRuntime(config, bindingsIn(env));
  reportWarnings([...config.warnings, ...deploymentProblems(variables)]);
  const environment = { config, runtime, policies, used };
  environments.set(env, environment);
  return environment;
}

const nameTaken = ({ name }: StatedPolicy) => ({
  variable: "rateLimit",
  field: "name",
  value: name,
  accepted: "a name of its own, because another rateLimit of this Worker with other options has it",
});

/** @throws ConfigProblems without the binding of the objects */
function bindingsIn(env: object): Bindings {
  const objects: unknown = Reflect.get(env, "RATE_LIMITER");
  if (typeof objects === "object" && objects !== null && "getByName" in objects) {
    // Cast because a binding shows its class only in its methods.
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    return env as Bindings;
  }
  const accepted =
    'the binding of a Durable Object: [[durable_objects.bindings]] with name = "RATE_LIMITER" and class_name = "RateLimiter"';
  throw new ConfigProblems([{ variable: "RATE_LIMITER", field: "", value: objects, accepted }]);
}
