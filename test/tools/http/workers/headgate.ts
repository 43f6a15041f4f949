/** Headgate, which also counts its requests and the calls of its objects. */
import headgate, { ControlPlane, RateLimiter } from "../../../../src/index.ts";
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
