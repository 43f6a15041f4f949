/** `headgate/object`: the Durable Object classes that a Worker exports. */
export { ControlPlane } from "../../control/object/control-plane.ts";
export { RateLimiter } from "../../limiter/object/durable-object.ts";
