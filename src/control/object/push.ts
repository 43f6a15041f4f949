/** Calls the limiter objects of keys. */
import type { Push } from "./outbox.ts";

/** The outbox itself repeats a push that fails. */
const retry = { maxRetries: 0 };

/**
 * @param objects the namespace of the limiter's objects. An object of an older version lacks the method, so the call
 * fails
 */
export const pushTo =
  (objects: Env["RATE_LIMITER"]): Push =>
  async ({ name, locationHint, jurisdiction }, key, policy, rules, version) => {
    const namespace = jurisdiction === null ? objects : objects.jurisdiction(jurisdiction);
    const stub = namespace.getByName(name, {
      retry,
      ...(locationHint !== null && { locationHint }),
    });
    const reply = await stub.setRules(key, policy, rules, version);
    return reply.version;
  };
