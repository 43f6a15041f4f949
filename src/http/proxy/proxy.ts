/** The proxy: enforces the policies that apply to a request, forwards it to the origin, and marks the response. */
import type { Config } from "../../policy/vars/config.ts";
import { type RequestTarget, membersOf } from "../../policy/request.ts";
import type { WaitUntil } from "../../limiter/isolate/object-caller.ts";
import { attributesOf, targetOf } from "../attributes.ts";
import { answerInternalError, type Runtime } from "../runtime.ts";
import { demoAnswer } from "../setup.ts";
import { applicablePolicies, enforcePolicies, reservationTtlMs } from "./enforce.ts";
import { forwardTo, unforwardableAnswer } from "./forward.ts";
import { serializeList, Token } from "structured-headers";
import type { AllowedOrigins } from "../../policy/vars/cors.ts";
import { legacyNames } from "../wire/rate-limit-fields.ts";
import { type ProxyError, proxyErrorOf } from "../wire/problems.ts";

/**
 * Answers any request to the origin. The promise never rejects.
 * @param target the target of the request, if the caller has parsed it
 */
export type Proxy = (request: Request, waitUntil: WaitUntil, target?: RequestTarget) => Promise<Response>;

type AnswerForwardable = (...call: Required<Parameters<Proxy>>) => Promise<Response>;

export function createProxy(config: Config, runtime: Runtime): Proxy {
  const { pseudonym } = runtime;
  const rejection = unforwardableAnswer(config, pseudonym);
  const forward = forwardTo(config, pseudonym, () => runtime.statistics?.originFailed());
  const mark = proxyStatusAndCors(config.corsOrigins, pseudonym);
  const enforce: AnswerForwardable = async (request, waitUntil, target) => {
    const rejected = await rejection(request, target);
    if (rejected !== null) return rejected;
    const attributes = attributesOf(request, target);
    runtime.control?.touch(waitUntil);
    return enforcePolicies(request, () => applicablePolicies(runtime, attributes), {
      runtime,
      attributes,
      tenant: null,
      reservationTtlMs,
      forward: (received, clientGone) => forward(received, target, clientGone),
      waitUntil,
    });
  };
  const answer = config.origin.kind === "demo" ? withDemoPage(enforce) : enforce;
  return async function proxy(request, waitUntil, target = targetOf(request)) {
    try {
      const response = await answer(request, waitUntil, target).catch(answerInternalError);
      await mark(response, request);
      return response;
    } catch (error) {
      return answerInternalError(error);
    }
  };
}

/** In the demo, the status 404 states that there is no origin. Browsers get a page in its place. */
const withDemoPage =
  (answer: AnswerForwardable): AnswerForwardable =>
  async (request, ...call) => {
    const response = await answer(request, ...call);
    return response.status === 404 ? demoAnswer(request, response) : response;
  };

/** Scripts can read these fields only if `Access-Control-Expose-Headers` names them (Fetch, section 3.3.4). */
const exposedFields = ["RateLimit", "RateLimit-Policy", "Retry-After"];
const legacyFieldNames = (headers: Headers): string[] => legacyNames.filter((name) => headers.has(name));

/**
 * Adds `Proxy-Status` and CORS fields to Headgate's own problem responses. Responses of the origin that already allow
 * a cross-origin script also expose the rate limit fields.
 */
function proxyStatusAndCors(
  origins: AllowedOrigins,
  pseudonym: () => Promise<string>,
): (response: Response, request: Request) => Promise<void> {
  const statusFields = new Map<ProxyError, string>();
  return async function mark(response, request) {
    const { headers } = response;
    const proxyError = proxyErrorOf(response);
    if (proxyError === null) exposeRateLimitFields(headers);
    else {
      let field = statusFields.get(proxyError);
      if (field === undefined) {
        field = proxyStatusField(await pseudonym(), proxyError);
        statusFields.set(proxyError, field);
      }
      headers.set("Proxy-Status", field);
      allowOrigin(headers, request.headers.get("Origin"), origins);
    }
  };
}

const proxyStatusField = (pseudonym: string, proxyError: ProxyError): string =>
  serializeList([[new Token(pseudonym), new Map([["error", new Token(proxyError)]])]]);

/** Only where the origin lets scripts read its response. */
function exposeRateLimitFields(headers: Headers): void {
  if (!headers.has("Access-Control-Allow-Origin")) return;
  const value = headers.get("Access-Control-Expose-Headers") ?? "";
  const names = new Set(membersOf(headers, "Access-Control-Expose-Headers").map((name) => name.toLowerCase()));
  const areAllExposed = names.has("*") && headers.get("Access-Control-Allow-Credentials") !== "true";
  const missing = [...exposedFields.filter((name) => headers.has(name)), ...legacyFieldNames(headers)].filter(
    (name) => !names.has(name.toLowerCase()),
  );
  if (areAllExposed || missing.length === 0) return;
  const fields = [...(value === "" ? [] : [value]), ...missing];
  headers.set("Access-Control-Expose-Headers", fields.join(", "));
}

function allowOrigin(headers: Headers, origin: string | null, origins: AllowedOrigins): void {
  if (origins.kind === "none") return;
  if (origins.kind === "list") headers.append("Vary", "Origin");
  if (origin === null) return;
  if (origins.kind === "list" && !origins.origins.has(origin)) return;
  headers.set("Access-Control-Allow-Origin", origins.kind === "any" ? "*" : origin);
  if (origins.kind === "list") headers.set("Access-Control-Allow-Credentials", "true");
  headers.set("Access-Control-Expose-Headers", [...exposedFields, ...legacyFieldNames(headers)].join(", "));
}
