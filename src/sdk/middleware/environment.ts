/**
 * The environment of a Worker that uses the package: its bindings, its secrets, and the policies of its middleware. It
 * also names limiters without a name. Such a name comes from the options of the limiter and its place among the other
 * limiters, so the order of requests does not affect it. A Worker constructs these limiters when it starts. Where
 * modules are loaded later, as in tests and in development, an app that is constructed again gets the same names again.
 */
import { type Config, deploymentProblems, parseConfig } from "../../policy/vars/config.ts";
import type { Variables } from "../../policy/vars/variables.ts";
import { ConfigProblems, type ConfigProblem } from "../../validation/problems.ts";
import { BoundedMap } from "../../policy/caches.ts";
import { type Bindings, createRuntime, reportStartError, reportWarnings, type Runtime } from "../../http/runtime.ts";
import type { Failure } from "../../http/wire/problems.ts";
import { compatibilityProblems } from "../../validation/compatibility.ts";
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
  "SAMPLE",
  "DENIALS",
  "ALERT_WEBHOOK",
  "ALERT_SECRET",
  "ALERT_DENIED_SHARE",
  "ALERT_KEYS",
] as const;

/** A path that no request reaches, because the middleware has no `/check`. */
const unusedCheckPath = "/.headgate/check";

interface KnownEnvironment extends WorkerEnvironment {
  readonly policies: PoliciesByName;
  /** The names of the policies that requests have used. Only other policies may still be replaced. */
  readonly used: Set<string>;
}

/** An isolate keeps one `env` object for its life. */
const byEnv = new WeakMap<object, KnownEnvironment>();
/**
 * By the binding of the objects, then by the variables: libraries that wrap `env` may create a new object for each
 * request.
 */
const byBinding = new WeakMap<object, BoundedMap<KnownEnvironment>>();
const mostOfBinding = 16;

/**
 * Returns a function that reads the environment of a context, or the failure to answer with. A failure is reported once.
 * @param own policies that the environment must have
 */
export function environmentReader(own: readonly StatedPolicy[]): (env: unknown) => WorkerEnvironment | Failure {
  const failures = new WeakMap<object, Failure>();
  return (value) => {
    const env: object = typeof value === "object" && value !== null ? value : {};
    const known = failures.get(env);
    if (known !== undefined) return known;
    try {
      return environmentOf(env, own);
    } catch (error) {
      const failure = ofPackage(reportStartError(error));
      failures.set(env, failure);
      return failure;
    }
  };
}

export const ofPackage = (failure: Failure): Failure =>
  failure.kind === "configuration-invalid" ? { ...failure, isOfPackage: true } : failure;

/** @throws ConfigProblems when a binding is missing, a variable is invalid, or two policies have the same name */
function environmentOf(env: object, own: readonly StatedPolicy[]): WorkerEnvironment {
  let environment = byEnv.get(env);
  if (environment === undefined || !hasAll(environment, own)) {
    environment = environmentWith(env, own);
    byEnv.set(env, environment);
  }
  for (const { name } of own) environment.used.add(name);
  return environment;
}

const hasAll = ({ policies }: KnownEnvironment, own: readonly StatedPolicy[]): boolean =>
  own.every((policy) => {
    const known = policies.get(policy.name);
    return known !== undefined && isSame(known, policy);
  });

function environmentWith(env: object, own: readonly StatedPolicy[]): KnownEnvironment {
  const unsupported = compatibilityProblems();
  if (unsupported.length > 0) throw new ConfigProblems(unsupported);
  const bindings = bindingsIn(env);
  const { RATE_LIMITER: objects } = bindings;
  const variables: Record<string, unknown> = { CHECK_PATH: unusedCheckPath };
  for (const name of ownVariables) variables[name] = Reflect.get(env, name);
  const text = JSON.stringify(variables);
  const siblings = byBinding.get(objects) ?? new BoundedMap<KnownEnvironment>(mostOfBinding);
  byBinding.set(objects, siblings);
  const known = siblings.get(text);
  if (known !== undefined && hasAll(known, own)) {
    siblings.refresh(text);
    return known;
  }
  const environment = newEnvironment(bindings, variables, own, known);
  siblings.set(text, environment);
  return environment;
}

type PoliciesByName = ReadonlyMap<string, StatedPolicy>;

/** @param known the environment with the same variables but without some of the policies */
function newEnvironment(
  bindings: Bindings,
  variables: Variables,
  own: readonly StatedPolicy[],
  known: KnownEnvironment | undefined,
): KnownEnvironment {
  const used = known?.used ?? new Set<string>();
  const taken = own.filter((policy) => {
    const other = used.has(policy.name) ? known?.policies.get(policy.name) : undefined;
    return other !== undefined && !isSame(other, policy);
  });
  if (taken.length > 0) throw new ConfigProblems(taken.map(nameTaken));
  const kept = [...(known?.policies.values() ?? [])].filter(({ name }) => used.has(name));
  const needed = byName([...kept, ...own]);
  // All constructed policies are included, so that the control plane knows them from the first request to any route on.
  const others = [...constructed.values()].filter(({ name }) => !needed.has(name));
  const all = byName([...needed.values(), ...others]);
  const whole = configOrNull(variables, all);
  const policies = whole === null ? withValid(others, needed, variables) : all;
  const config = whole ?? configOf(variables, policies);
  const warnings = config.warnings
    // This warning does not apply to the middleware, which passes preflights on to the app.
    .filter((line) => !line.startsWith("PREFLIGHT_LIMITS"))
    .map((line) => withPlaces(line, [...policies.values()]));
  reportWarnings([...warnings, ...deploymentProblems(variables).map(({ text }) => text)]);
  return { config, runtime: createRuntime(config, bindings), policies, used };
}

/** The text of a problem, with fields of `POLICIES` replaced by the options of `rateLimit`. */
const withPlaces = (text: string, policies: readonly StatedPolicy[]): string =>
  text
    .replaceAll(/POLICIES\[(\d+)\](?:\.(\w+))?/g, (place, index: string, option?: string) => {
      const policy = policies[Number(index)];
      return policy === undefined ? place : optionOf(policy, option);
    })
    .replace(/^POLICIES\b/, "rateLimit");

/** An option as the code of the app writes it, such as `rateLimit({ name: "login", key })`. */
function optionOf({ name, isUnnamed, caller }: StatedPolicy, option?: string): string {
  const options = [...(isUnnamed ? [] : [`name: "${name}"`]), ...(option === undefined ? [] : [option])];
  return `${caller}({ ${options.join(", ")} })`;
}

const placeOf = ({ name, isUnnamed, caller }: StatedPolicy): string =>
  isUnnamed ? caller : `${caller} (name: "${name}")`;

const byName = (policies: readonly StatedPolicy[]): PoliciesByName =>
  new Map(policies.map((policy) => [policy.name, policy]));

/** The needed policies and all valid others. An invalid policy of another route does not affect this one. */
function withValid(others: readonly StatedPolicy[], needed: PoliciesByName, variables: Variables): PoliciesByName {
  if (others.length === 0) return needed;
  const all = byName([...needed.values(), ...others]);
  if (configOrNull(variables, all) !== null) return all;
  if (others.length === 1) return needed;
  const middle = Math.ceil(others.length / 2);
  const first = withValid(others.slice(0, middle), needed, variables);
  return withValid(others.slice(middle), first, variables);
}

function configOrNull(...config: Parameters<typeof configOf>): Config | null {
  try {
    return configOf(...config);
  } catch {
    return null;
  }
}

/** @throws ConfigProblems that name the options of `rateLimit` instead of the fields of `POLICIES` */
function configOf(variables: Variables, byNames: PoliciesByName): Config {
  const policies = [...byNames.values()];
  try {
    return parseConfig({ ...variables, POLICIES: policies.map(({ written }) => written) });
  } catch (error) {
    if (!(error instanceof ConfigProblems)) throw error;
    const placed = error.problems.map(({ variable, field, value, accepted: expected }) => {
      const accepted = withPlaces(expected, policies);
      const [, index = "", rest = ""] = /^\[(\d+)\]\.?(.*)$/s.exec(field) ?? [];
      const policy = variable === "POLICIES" ? policies[Number(index)] : undefined;
      if (index === "" || policy === undefined) return { variable, field, value, accepted };
      return { variable: placeOf(policy), field: rest, value, accepted };
    });
    throw new ConfigProblems(placed);
  }
}

/** @throws ConfigProblems when the binding of the objects is missing */
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

/** Whether the Worker is starting. During the start, Workers refuse random values; other runtimes never refuse them. */
function isStarting(): boolean {
  try {
    crypto.randomUUID();
    return false;
  } catch {
    return true;
  }
}

/** Whether this module was loaded during a Worker's start. Tests and development servers load it later. */
const isLoadedAtStart = isStarting();

/** All constructed policies, by name. */
let constructed = new Map<string, StatedPolicy>();
/** Whether a limiter has handled a request since the last one was constructed. */
let isInUse = false;

/** Called when a limiter handles a request. */
export function noteUse(): void {
  isInUse = true;
}

/**
 * Gives a name to a policy without one, and refuses a name that another policy has.
 * @throws ConfigProblems
 */
export function withNames(policies: readonly StatedPolicy[]): readonly StatedPolicy[] {
  const isLate = isLoadedAtStart && !isStarting();
  const unnamed = policies.filter(({ isUnnamed }) => isUnnamed);
  if (isLate && unnamed.length > 0) throw new ConfigProblems(unnamed.map(constructedLate));
  if (isInUse && !isLoadedAtStart) constructed = new Map();
  isInUse = false;
  const named = policies.map((policy) => {
    if (!policy.isUnnamed) return policy;
    const name = freeName(policy.text);
    return { ...policy, name, written: { ...policy.written, name } };
  });
  const taken = named.filter((policy) => {
    const known = constructed.get(policy.name);
    return !policy.isUnnamed && known !== undefined && !isSame(policy, known);
  });
  if (taken.length > 0) throw new ConfigProblems(taken.map(nameTaken));
  // Requests may construct any number of late limiters, so their names are not kept.
  if (!isLate) for (const policy of named) constructed.set(policy.name, policy);
  return named;
}

/** Whether two policies with one name are the same policy constructed again, or share the name on purpose. */
const isSame = (a: StatedPolicy, b: StatedPolicy): boolean => a.text === b.text && a.isUnnamed === b.isUnnamed;

const nameTaken = ({ name, isUnnamed, caller }: StatedPolicy): ConfigProblem => ({
  variable: caller,
  field: "name",
  value: isUnnamed ? undefined : name,
  accepted: isUnnamed
    ? `a name such as name: "login", because another limiter without a name has handled requests as "${name}"`
    : `a name of its own such as name: "${name}-2", because another limiter of this Worker, with other options or without a name, already has this name`,
});

const constructedLate = ({ caller }: StatedPolicy): ConfigProblem => ({
  variable: caller,
  field: "name",
  value: undefined,
  accepted:
    'a name such as name: "login", because this limiter is constructed for a request and not when the Worker starts',
});

/**
 * The name of a policy without one. The first such policy is `default`. The name of each other contains the hash of its
 * options, and a number if several have equal options.
 */
function freeName(text: string): string {
  if (!constructed.has("default")) return "default";
  const base = `default-${hashOf(text)}`;
  let name = base;
  for (let number = 2; constructed.has(name); number++) name = `${base}-${number}`;
  return name;
}

/** FNV-1a, 32 bits. */
function hashOf(text: string): string {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index++) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  }
  return (hash >>> 0).toString(16).padStart(8, "0");
}
