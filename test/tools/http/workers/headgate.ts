/** Headgate that also counts its requests and the calls of its objects, and a Headgate that does not join checks. */
import { parseConfig } from "../../../../src/policy/vars/config.ts";
import { type AnswerCall, createCheck } from "../../../../src/http/check/routes.ts";
import { createRuntime } from "../../../../src/http/runtime.ts";
import headgate, { ControlPlane, RateLimiter } from "../../../../src/index.ts";
import { LimiterClient } from "../../../../src/limiter/isolate/client.ts";
import { countCalls, countRequest } from "./counter.ts";

export { counts } from "./counter.ts";
export { ControlPlane, RateLimiter };

countCalls(RateLimiter);

export default {
  fetch(request, env, ctx) {
    countRequest();
    return headgate.fetch(request, env, ctx);
  },
} satisfies ExportedHandler<Env>;

let unjoinedCheck: AnswerCall | undefined;

function createUnjoinedCheck(env: Env): AnswerCall {
  const options = { joinsChecks: false };
  const limiter = new LimiterClient(env.RATE_LIMITER, undefined, null, options);
  return createCheck({ ...createRuntime(parseConfig({ ...env }), env), limiter }).check;
}

/** Answers `/check` as Headgate does, but sends each check in a separate call. */
export const unjoined: ExportedHandler<Env> = {
  fetch(request, env, ctx) {
    countRequest();
    unjoinedCheck ??= createUnjoinedCheck(env);
    return unjoinedCheck(request, (work) => ctx.waitUntil(work));
  },
};
