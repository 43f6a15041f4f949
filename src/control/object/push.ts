/** Calls the limiter objects of keys. */
import type { Jurisdiction, LocationHint } from "../../policy/placement.ts";
import type { SetRulesReply } from "../../limiter/protocol.ts";
import type { Push } from "./outbox.ts";

/** The outbox itself repeats a push that fails. */
const retry = { maxRetries: 0 };

/** The binding of the limiter objects. */
export interface LimiterObjects {
  readonly jurisdiction: (jurisdiction: Jurisdiction) => LimiterObjects;
  readonly getByName: (
    name: string,
    options: { readonly retry: typeof retry; readonly locationHint?: LocationHint },
  ) => { readonly setRules: (...rules: PushedRules) => Promise<SetRulesReply> };
}

type PushedRules = Parameters<Push> extends [unknown, ...infer Rules] ? Rules : never;

/**
 * @param objects the namespace of the limiter's objects. An object of an older version lacks the method, so the call
 * fails
 */
export const pushTo =
  (objects: LimiterObjects): Push =>
  async ({ name, locationHint, jurisdiction }, key, policy, rules, version) => {
    const namespace = jurisdiction === null ? objects : objects.jurisdiction(jurisdiction);
    const stub = namespace.getByName(name, {
      retry,
      ...(locationHint !== null && { locationHint }),
    });
    const reply = await stub.setRules(key, policy, rules, version);
    return reply.version;
  };
