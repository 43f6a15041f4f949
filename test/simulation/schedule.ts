/** What simulations are made of: a policy, and how a network and the clocks of isolates may be. */
import * as fc from "fast-check";
import { parseConfig, type Policy } from "../../src/config/index.ts";

export function policyWith(fields: object): Policy {
  const [policy] = parseConfig({ KEY_SECRET: "s", POLICIES: [{ name: "p", ...fields }] }).policies;
  if (policy === undefined) throw new Error("a policy was configured");
  return policy;
}

/** Fields of a schedule: how many isolates there are, by how much their clocks are wrong, and how calls fare. */
export const disturbed = (mostIsolates: number, delaysMs: readonly number[]) => ({
  seed: fc.integer(),
  isolates: fc.integer({ min: 1, max: mostIsolates }),
  skews: fc.array(fc.integer({ min: -2_000, max: 2_000 }), {
    minLength: mostIsolates,
    maxLength: mostIsolates,
  }),
  mostDelayMs: fc.constantFrom(...delaysMs),
  lost: fc.constantFrom(0, 0.1, 0.5),
  unanswered: fc.constantFrom(0, 0.1, 0.5),
});
