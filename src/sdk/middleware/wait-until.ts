/** Keeps a handler alive for work that outlasts a call of a limiter, such as a sync or a refund. */
import { type Clock, platformClock } from "../../limiter/clock.ts";
import type { WaitUntil } from "../../limiter/isolate/object-caller.ts";
import { errorText, report } from "../../observability/events.ts";

/** Null if the platform has no such function: work then continues without it. */
let ofPlatform: WaitUntil | null | undefined;

/**
 * The function that keeps the running handler of a Worker or an object alive for work. `cloudflare:workers` provides it
 * in every handler, so that callers need not pass their context. Tests with a virtual clock wait for the work
 * themselves.
 */
export async function waitUntilUnder(clock: Clock): Promise<WaitUntil> {
  if (clock !== platformClock) return unattended;
  // The module, and not a promise of it, is kept: another handler must not wait for a promise of this one.
  if (ofPlatform === undefined) ofPlatform = await platformWaitUntil();
  return ofPlatform ?? unattended;
}

async function platformWaitUntil(): Promise<WaitUntil | null> {
  try {
    const { waitUntil } = await import("cloudflare:workers");
    return typeof waitUntil === "function" ? (work) => waitUntil(work) : null;
  } catch {
    // Node and browsers have no such module.
    return null;
  }
}

const unattended: WaitUntil = (work) => {
  work.catch((error: unknown) => report({ event: "internal-error", error: errorText(error) }));
};
