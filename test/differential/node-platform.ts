/** Globals that workerd has and plain Node lacks. */
import { timingSafeEqual } from "node:crypto";

/** Defines these globals for the rest of the process. */
export function provideWorkerdGlobals(): void {
  Object.assign(crypto.subtle, { timingSafeEqual });
  Object.assign(globalThis, { scheduler: {}, IdentityTransformStream: TransformStream });
  Object.defineProperty(Response.prototype, "webSocket", {
    value: null,
    configurable: true,
    writable: true,
  });
}
