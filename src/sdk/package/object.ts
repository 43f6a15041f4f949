/** `headgate/object`: the Durable Object classes that a Worker exports. */
export { ControlPlane } from "../../control/object/durable-object.ts";
export { RateLimiter } from "../../limiter/object/durable-object.ts";
