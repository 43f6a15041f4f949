/** The dependencies that the routes share, created once for each environment, and the reports of internal errors. */
import type { Context } from "hono";
import type { CheckToken } from "../policy/vars/secrets.ts";
import type { Config } from "../policy/vars/config.ts";
import { ConfigProblems, describeProblem } from "../validation/problems.ts";
import type { Policy } from "../policy/policy.ts";
import { encodingOf, PartitionKeys, type Hmac, hmacWith } from "../policy/partition-key.ts";
import { enforcedPolicy, compiledPolicy } from "../policy/compiled-policy.ts";
import { chargedKeys } from "../policy/resolve-key.ts";
import { ControlClient, type ControlPlaneObjects } from "../control/isolate/control-client.ts";
import { KeySealer } from "../control/isolate/key-sealer.ts";
import { IsolateStatistics } from "../control/isolate/statistics.ts";
import { Bans } from "../limiter/isolate/bans.ts";
import { LimiterClient } from "../limiter/isolate/client.ts";
import { DenialLog } from "../limiter/isolate/denial-log.ts";
import type { WaitUntil } from "../limiter/isolate/object-caller.ts";
import { prepareCharges } from "../limiter/isolate/outcome.ts";
import { type Clock, clockOf } from "../limiter/clock.ts";
import { errorText, report } from "../observability/events.ts";
import { claimsReader, type ReadClaims } from "./claims.ts";
import { packageVersion } from "./wire/version.ts";
import { type Failure, problemResponse } from "./wire/problems.ts";
import { prepareLimitFields } from "./wire/rate-limit-fields.ts";

export interface Runtime {
  readonly clock: Clock;
  /** Null without a control plane: the configuration alone is in effect. */
  readonly control: ControlClient | null;
  /** Null without a control plane. */
  readonly statistics: IsolateStatistics | null;
  /** The policies in effect: a getter, whose value changes with the runtime rules. */
  readonly policies: readonly Policy[];
  /** Charged for CORS preflights instead of `policies`; empty when preflights have no limits. */
  readonly preflights: readonly Policy[];
  readonly checkTokens: readonly CheckToken[];
  readonly isLookOpen: boolean;
  /** Limits on calls to `/check` itself: the policies whose path begins with `CHECK_PATH`. */
  readonly selfPolicies: readonly Policy[];
  readonly partitions: PartitionKeys;
  readonly sign: Hmac;
  /** The name in `Via` and `Proxy-Status`. It differs between deployments, since they may be chained. */
  readonly pseudonym: () => Promise<string>;
  readonly limiter: LimiterClient;
  readonly bans: Bans;
  readonly readClaims: ReadClaims;
  readonly hasLegacyHeaders: boolean;
  /** Null when `LOG_DENIALS` is off. */
  readonly denialLog: DenialLog | null;
}

/** Keeps the Worker running for work that outlasts the response. */
export const waitUntilFrom =
  (c: Pick<Context, "executionCtx">): WaitUntil =>
  (work) =>
    c.executionCtx.waitUntil(work);

/** The bindings of the Worker. Without `CONTROL_PLANE` there is no control plane. */
export interface Bindings {
  readonly RATE_LIMITER: Env["RATE_LIMITER"];
  readonly CONTROL_PLANE?: ControlPlaneObjects;
}

export function createRuntime(config: Config, env: Bindings): Runtime {
  const { origin } = config;
  const via = JSON.stringify({ via: origin.kind === "url" ? origin.url.origin : origin.kind });
  let pseudonym: string | null = null;
  const clock = clockOf(env.RATE_LIMITER);
  const sign = hmacWith(config.keySecret, clock.hold);
  const statistics = statisticsOf(config, env, clock);
  const limiter = new LimiterClient(env.RATE_LIMITER, clock, statistics, {
    awaitsFirstCall: true,
  });
  const control =
    statistics !== null && env.CONTROL_PLANE !== undefined
      ? new ControlClient({
          policies: config.policies,
          objects: env.CONTROL_PLANE,
          codeVersion: packageVersion,
          hash: sign,
          statistics,
          clock,
          random: () => Math.random(),
        })
      : null;
  const inEffect = policiesInEffect(config, control);
  return {
    clock,
    control,
    statistics,
    get policies() {
      return inEffect().policies;
    },
    preflights: config.preflights === null ? [] : [config.preflights],
    checkTokens: config.checkTokens,
    isLookOpen: config.isLookOpen,
    get selfPolicies() {
      return inEffect().selfPolicies;
    },
    partitions: new PartitionKeys(sign),
    sign,
    pseudonym: async () => (pseudonym ??= `headgate-${(await sign(via)).slice(0, 8)}`),
    limiter,
    bans: new Bans(limiter, clock),
    readClaims: config.jwt === null ? async () => ({ claims: {} }) : claimsReader(config.jwt, clock),
    hasLegacyHeaders: config.hasLegacyHeaders,
    denialLog: config.logsDenials ? new DenialLog(clock) : null,
  };
}

type PoliciesInEffect = Pick<Runtime, "policies" | "selfPolicies">;

/** Prepares the configured policies now, and policies that runtime rules change when these come into effect. */
function policiesInEffect(config: Config, control: ControlClient | null): () => PoliciesInEffect {
  const { preflights } = config;
  const selfNames = new Set(config.selfPolicies.map(({ name }) => name));
  const prepared = (policies: readonly Policy[]): PoliciesInEffect => {
    for (const policy of policies) prepare(policy);
    return { policies, selfPolicies: policies.filter(({ name }) => selfNames.has(name)) };
  };
  if (preflights !== null) prepare(preflights);
  let current = prepared(control?.policies() ?? config.policies);
  return () => {
    const policies = control?.policies() ?? config.policies;
    if (policies !== current.policies) current = prepared(policies);
    return current;
  };
}

/** Computes all values that depend only on the policy, so that no request has to. */
function prepare(policy: Policy): void {
  const { overridden } = compiledPolicy(policy);
  for (const key of chargedKeys(policy)) encodingOf(key);
  for (const charged of [policy, ...overridden.values()]) {
    prepareLimitFields(charged.limits);
    prepareCharges(charged);
    // `/check` decides a dry run as if it were enforced.
    if (charged.isDryRun) prepareCharges(enforcedPolicy(charged));
  }
}

/** Null without a control plane that stores them. */
function statisticsOf(
  { admin, alerts, keySecret, policies, sampleOneKeyIn: oneKeyIn, mostDenials }: Config,
  env: Bindings,
  clock: Clock,
): IsolateStatistics | null {
  if (admin === null || env.CONTROL_PLANE === undefined) return null;
  const sealer = admin.reveal ? new KeySealer(keySecret) : null;
  const alertedPolicies = alerts?.keys ?? new Set();
  const names = new Set(policies.map(({ name }) => name));
  const sample = oneKeyIn === null ? null : { oneKeyIn, policies: names };
  return new IsolateStatistics({ sealer, alertedPolicies, sample, logsDenials: mostDenials !== null, clock });
}

export function reportWarnings(warnings: readonly string[]): void {
  if (warnings.length > 0) report({ event: "configuration-warning", warnings });
}

/** @returns the failure that every response states; it quotes no configured value */
export function reportStartError(error: unknown): Failure {
  if (!(error instanceof ConfigProblems)) {
    report({ event: "internal-error", error: errorText(error) });
    return { kind: "internal" };
  }
  const { problems } = error;
  report({ event: "configuration-invalid", problems: problems.map(describeProblem) });
  return { kind: "configuration-invalid", problems };
}

/** The failure that stands for an unexpected error. Only the log states the cause. */
export function failureBy(error: unknown): Failure {
  // The limiter has already reported that its objects can never decide.
  if (error instanceof ConfigProblems) {
    return { kind: "configuration-invalid", problems: error.problems };
  }
  report({ event: "internal-error", error: errorText(error) });
  return { kind: "internal" };
}

export const answerInternalError = (error: unknown): Response => problemResponse(failureBy(error));
