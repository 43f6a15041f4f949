/** The proxy: enforces the policies that apply to a request, and forwards it to the origin. */
import type { Config } from "../../policy/vars/config.ts";
import type { RequestTarget } from "../../policy/request.ts";
import type { WaitUntil } from "../../limiter/isolate/object-caller.ts";
import { attributesOf, targetOf } from "../attributes.ts";
import { answerInternalError, type Runtime } from "../runtime.ts";
import { demoAnswer } from "../setup/answer.ts";
import { applicablePolicies, enforcePolicies } from "./enforce.ts";
import { forwardTo, unforwardableAnswer } from "./forward.ts";
import { reservationTtlMs } from "./in-flight.ts";
import { proxyStatusAndCors } from "./response-marks.ts";

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
