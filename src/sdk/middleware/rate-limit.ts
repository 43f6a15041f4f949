/**
 * The Hono middleware: `rateLimit` enforces policies in the user's own Worker, and `admin` serves its admin API and console.
 */
import { type Context, type Env, type MiddlewareHandler, type Next, Hono } from "hono";
import type { Policy } from "../../policy/policy.ts";
import { matchingPolicies } from "../../policy/compiled-policy.ts";
import { isPreflight, type RequestAttributes } from "../../policy/request.ts";
import { policyWithLimits, StatedLimitsInvalid } from "../../policy/stated-limits.ts";
import { attributesOf, urlOf, routedPath } from "../../http/attributes.ts";
import { isDeniedByLimits, type LimitDenial } from "../../http/proxy/denial.ts";
import { enforcePolicies, reservationTtlMs } from "../../http/proxy/enforce.ts";
import { reservationMs, StatedCosts } from "../../http/proxy/in-flight.ts";
import type { DecidedRequest, RequestCounting } from "../../http/record-outcomes.ts";
import { type Runtime, failureBy, reportStartError } from "../../http/runtime.ts";
import { isFailure, problemResponse } from "../../http/wire/problems.ts";
import { hasRateLimitFields } from "../../http/wire/rate-limit-fields.ts";
import type { WaitUntil } from "../../limiter/isolate/object-caller.ts";
import { addContinuedFields, answerByFunction, isDenied, noteDenied } from "./answer-denial.ts";
import { type Contribution, contextVariable, type RateLimitContext } from "./context-variable.ts";
import { environmentReader, noteUse, withNames, ofPackage, type WorkerEnvironment } from "./environment.ts";
import { type LimiterCalls, limiterOf, unattended } from "./limiter.ts";
import {
  checkedCost,
  checkedSkip,
  customKeyText,
  readOptions,
  type StatedPolicy,
  namedNumber,
} from "./read-options.ts";
import type { PolicyOptions } from "./options.ts";
import { type ConfigProblem, ConfigProblems } from "../../validation/problems.ts";
import { isAdminRequest, mountAdmin } from "../../admin/routes.ts";

/** The environment of handlers of `new Hono()`, which has only the variables and bindings that an app declares. */
// oxlint-disable-next-line typescript/no-generated-empty-object-type
type NoEnv = Record<never, never>;

/**
 * Limits requests by one or several policies, which are decided together: a request that one of them denies is charged to
 * none. The Worker has a binding `RATE_LIMITER` of the class `RateLimiter` from `headgate/object`, and the secret
 * `KEY_SECRET`.
 * @throws ConfigProblems with every problem in the options
 */
export function rateLimit<E extends Env = NoEnv>(
  ...options: readonly RateLimitOptions<E>[]
): MiddlewareHandler<E> & LimiterCalls {
  const policies = withNames(readOptions(options));
  const reserved = new Set(policies.flatMap(({ name, isReserved }) => (isReserved ? [name] : [])));
  const environmentOf = environmentReader(policies);
  const limited: MiddlewareHandler<E> = async (c, next) => {
    noteUse();
    const environment = environmentOf(c.env);
    return isFailure(environment)
      ? problemResponse(environment)
      : answeringProblems(() =>
          new LimitedRequest(c, next, { policies, reserved, runtime: environment.runtime }).answer(),
        );
  };
  return Object.assign(limited, limiterOf(policies, environmentOf));
}

/** The policies of a `rateLimit`, and the runtime that decides requests by them. */
interface Enforcement {
  readonly policies: readonly StatedPolicy[];
  /** The names of policies with `reserve`. */
  readonly reserved: ReadonlySet<string>;
  readonly runtime: Runtime;
}

/** The requests that a limiter has counted as admitted. Further limiters of the same request do not count it again. */
const counted = new WeakSet<Request>();

class LimitedRequest {
  readonly #c: Context;
  readonly #next: Next;
  readonly #enforcement: Enforcement;
  readonly #earlier: RateLimitContext | undefined;
  readonly #statedCosts: StatedCosts;
  readonly #counting: RequestCounting;
  #isForwarded = false;

  constructor(c: Context, next: Next, enforcement: Enforcement) {
    this.#c = c;
    this.#next = next;
    this.#enforcement = enforcement;
    this.#earlier = c.get("headgate");
    this.#statedCosts = new StatedCosts((policy) => enforcement.reserved.has(policy));
    this.#counting = {
      isCounted: counted.has(c.req.raw),
      goesOn: (denying) => isDeniedByLimits(denying) && mayContinue(enforcement.policies, [denying]),
    };
  }

  /** @returns the denial or a problem; undefined when the context has the response */
  async answer(): Promise<Response | undefined> {
    const c = this.#c;
    const { policies, runtime } = this.#enforcement;
    if (urlOf(c.req.raw) === null) return problemResponse({ kind: "url-malformed" });
    const attributes = attributesOf(c.req.raw);
    this.#setVariable({});
    // Preflights are not limited: browsers send them without credentials, and middleware such as `cors` answers them.
    if (isPreflight(attributes)) {
      await this.#next();
      return undefined;
    }
    const matching = new Set(matchingPolicies(runtime.policies, attributes).map(({ name }) => name));
    const applied = policies.filter(({ name }) => matching.has(name));
    const values = await valuesFor(c, applied, attributes, runtime);
    runtime.control?.touch(waitUntilOf(c));
    // Some denials do not call `onDenied`. So the request counts as denied until it is forwarded.
    this.#setVariable({ isDenied: true });
    const response = await this.#enforce(values, []);
    if (!this.#isForwarded) {
      noteDenied(c);
      return response;
    }
    if (response !== c.res) replaceResponse(c, response);
    return undefined;
  }

  #setVariable(decided: Partial<Contribution>): void {
    const { reserved, runtime } = this.#enforcement;
    const undecided = { isDenied: false, charged: null, continued: [], dryRuns: [] };
    const contribution = { ...undecided, runtime, reserved, statedCosts: this.#statedCosts, ...decided };
    this.#c.set("headgate", contextVariable(this.#earlier, contribution));
  }

  /**
   * Decides the request by its policies. If all policies that deny it have `onDeny: "continue"`, the other policies
   * decide and charge it again.
   * @param denials earlier denials, whose policies no longer take part
   */
  #enforce(values: RequestValues, denials: readonly LimitDenial[]): Promise<Response> {
    const c = this.#c;
    const { policies, reserved, runtime } = this.#enforcement;
    const { attributes, costs } = values;
    const passedOver = new Set(denials.flatMap(({ denying }) => denying.map(({ policy }) => policy.name)));
    const continued = denials.map(({ denied }) => denied);
    let charged: DecidedRequest | null = null;
    return enforcePolicies(
      c.req.raw,
      () => runtime.policies.filter(({ name }) => values.charged.has(name) && !passedOver.has(name)),
      {
        runtime,
        attributes,
        tenant: null,
        waitUntil: waitUntilOf(c),
        costs,
        statedCosts: this.#statedCosts,
        counting: this.#counting,
        observeBody: withStreamEnd,
        reservationTtlMs: (policy: Policy) => (reserved.has(policy.name) ? reservationMs : reservationTtlMs(policy)),
        onDenied: (denied) => this.#setVariable({ isDenied: true, charged: denied, continued }),
        answerDenial: (denial) =>
          mayContinue(policies, denial.denying)
            ? this.#goOn(values, [...denials, denial])
            : answerByFunction(c, policies, denial),
        onAdmitted: (admitted) => (charged = admitted),
        // The fields of a denial list only the limits that deny, so other limiters must not add theirs.
        hasFinalFields: (headers) => denials.length > 0 || (isDenied(c) && hasRateLimitFields(headers)),
        forward: () => this.#forward(charged, continued),
      },
    );
  }

  /** Passes a denied request on to the handler. Its response gets the fields of the first denial. */
  async #goOn(values: RequestValues, denials: readonly LimitDenial[]): Promise<Response> {
    const response = await this.#enforce(values, denials);
    const [first] = denials;
    if (this.#isForwarded && first !== undefined && denials.length === 1) {
      addContinuedFields(this.#c, response, first.fields());
    }
    return response;
  }

  /** Calls the handler. */
  async #forward(charged: DecidedRequest | null, continued: readonly DecidedRequest[]): Promise<Response> {
    this.#isForwarded = true;
    if (this.#counting.isCounted === true) counted.add(this.#c.req.raw);
    const dryRuns = (await charged?.admission.dryRuns?.catch(() => []))?.flat() ?? [];
    this.#setVariable({ charged, continued, dryRuns });
    await this.#next();
    return mutable(this.#c.res);
  }
}

const mayContinue = (policies: readonly StatedPolicy[], denying: LimitDenial["denying"]): boolean =>
  denying.every(({ policy }) => policies.some(({ name, continuesDenied }) => continuesDenied && name === policy.name));

/** Without the first assignment, Hono would copy the headers of the previous response over those of the new one. */
function replaceResponse(c: Context, response: Response): void {
  c.res = undefined;
  c.res = response;
}

/** The values that the functions of the options return for one request. */
interface RequestValues {
  /** The names of the policies that charge the request: those that it does not skip. */
  readonly charged: ReadonlySet<string>;
  readonly attributes: RequestAttributes;
  readonly costs: ReadonlyMap<string, number>;
}

async function valuesFor(
  c: Context,
  policies: readonly StatedPolicy[],
  attributes: RequestAttributes,
  runtime: Runtime,
): Promise<RequestValues> {
  const charged = new Set<string>();
  const keys = new Map<string, string | null>();
  const costs = new Map<string, number>();
  const stated = new Map<string, unknown>();
  for (const { name, functions } of policies) {
    const { skip, key, cost, limits } = functions;
    // A policy applies only where the policies apply that it is within.
    if (runtime.policies.find((each) => each.name === name)?.ancestors.some(({ policy }) => !charged.has(policy)))
      continue;
    if (skip !== null && checkedSkip(await skip(c), name)) continue;
    charged.add(name);
    if (key !== null) keys.set(name, customKeyText(await key(c), name));
    if (cost !== null) {
      const place = `the function cost of the policy "${name}" returned`;
      costs.set(name, checkedCost(await cost(c), place));
    }
    if (limits !== null) stated.set(name, await limits(c));
  }
  return {
    charged,
    costs,
    attributes: {
      ...attributes,
      customKey: (policy) => keys.get(policy) ?? null,
      withLimits: (policy) =>
        stated.has(policy.name) ? policyWithLimits(policy, stated.get(policy.name), runtime.policies) : policy,
    },
  };
}

/** A response with mutable headers: those of a fetched response are immutable. */
function mutable(response: Response): Response {
  try {
    response.headers.delete("x-headgate-none");
    return response;
  } catch {
    return new Response(response.body, response);
  }
}

function waitUntilOf(c: Context): WaitUntil {
  try {
    return c.executionCtx.waitUntil.bind(c.executionCtx);
  } catch {
    // Hono throws outside of Workers, such as in tests, where there is no execution context.
    return unattended;
  }
}

/** One policy of `rateLimit`, whose functions get Hono's context. */
export interface RateLimitOptions<E extends Env = Env> extends PolicyOptions<Context<E>> {}

/**
 * The lists of problems that were already reported. A function may return the same invalid limits for many requests,
 * and they are reported only once.
 */
const reported = new WeakSet<object>();

/**
 * Reports the problems with their values, and answers 500 with problem details that show no value. Nothing was charged,
 * and no handler has run.
 */
async function answeringProblems<Answer>(handle: () => Promise<Answer>): Promise<Answer | Response> {
  try {
    return await handle();
  } catch (error) {
    if (!(error instanceof ConfigProblems)) throw error;
    if (!(error instanceof StatedLimitsInvalid)) return problemResponse(ofPackage(failureBy(error)));
    const problems = error.problems.map((problem) => ofFunction(problem, error.policy));
    if (!reported.has(error.problems)) reportStartError(new ConfigProblems(problems));
    reported.add(error.problems);
    return problemResponse({ kind: "configuration-invalid", problems, isOfPackage: true });
  }
}

function ofFunction(problem: ConfigProblem, policy: string): ConfigProblem {
  const { field, value, accepted } = problem;
  const within = field.replace(/^limits\.?/, "");
  return {
    variable: "rateLimit({ limits })",
    field: within,
    value: value === undefined ? "undefined" : namedNumber(value),
    accepted: `the function limits of the policy "${policy}" to return ${accepted}`,
  };
}

/** The most bytes that may wait for a slow client. A body that fits ends when its handler has written it. */
const bufferBytes = 65_536;

/**
 * Returns the same response, byte for byte.
 * @param clientGone aborts when the client has gone away. Copies of the body then fail: they would be incomplete
 * @param onEnd is called when the body ends, fails, or is abandoned by the client; possibly more than once
 */
function withStreamEnd(
  response: Response,
  body: ReadableStream<Uint8Array>,
  clientGone: AbortSignal,
  onEnd: () => void,
): Response {
  const reader = body.getReader();
  const abandon = async (reason: unknown): Promise<void> => {
    await reader.cancel(reason).catch(() => undefined);
    onEnd();
  };
  const observed = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        const leave = (): void => {
          controller.error(clientGone.reason);
          void abandon(clientGone.reason);
        };
        clientGone.addEventListener("abort", leave, { once: true });
      },
      async pull(controller) {
        try {
          const { value, done } = await reader.read();
          if (!done) {
            controller.enqueue(value);
            return;
          }
          onEnd();
          controller.close();
        } catch (error) {
          onEnd();
          controller.error(error);
        }
      },
      cancel: abandon,
    },
    new ByteLengthQueuingStrategy({ highWaterMark: bufferBytes }),
  );
  // The response as `init` keeps `encodeBody`: a body that is compressed already must not be compressed again.
  return new Response(observed, response);
}

/**
 * Serves everything below `ADMIN_PATH` (default: `/_headgate`), and the whole `ADMIN_HOST`. Passes all other requests on,
 * and without credentials (`ADMIN_TOKENS` or `ACCESS_TEAM`) every request. The Worker has a binding `CONTROL_PLANE` of the
 * class `ControlPlane` from `headgate/object`.
 */
export function admin(): MiddlewareHandler {
  const apps = new WeakMap<WorkerEnvironment, Hono>();
  const environmentOf = environmentReader([]);
  return async function administered(c, next) {
    const environment = environmentOf(c.env);
    if (isFailure(environment)) return problemResponse(environment);
    const { config, runtime } = environment;
    if (!isAdminRequest(c.req.raw, config.admin)) return next();
    let app = apps.get(environment);
    if (app === undefined) {
      app = new Hono({ getPath: routedPath });
      mountAdmin(app, { config, runtime, env: c.env });
      apps.set(environment, app);
    }
    return app.fetch(c.req.raw, c.env, c.executionCtx);
  };
}
