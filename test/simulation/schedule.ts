/** The policy and the randomly drawn parts of a simulation. */
import * as fc from "fast-check";
import { parseConfig } from "../../src/policy/vars/config.ts";
import type { Policy } from "../../src/policy/policy.ts";

export function policyWith(fields: object): Policy {
  const [policy] = parseConfig({ KEY_SECRET: "s", POLICIES: [{ name: "p", ...fields }] }).policies;
  if (policy === undefined) throw new Error("a policy was configured");
  return policy;
}

/** Random fields of a schedule: the number of isolates, the errors of their clocks and the faults of the network. */
export const disturbed = (maximumIsolates: number, delaysMs: readonly number[]) => ({
  seed: fc.integer(),
  isolates: fc.integer({ min: 1, max: maximumIsolates }),
  skews: fc.array(fc.integer({ min: -2_000, max: 2_000 }), {
    minLength: maximumIsolates,
    maxLength: maximumIsolates,
  }),
  maximumDelayMs: fc.constantFrom(...delaysMs),
  lost: fc.constantFrom(0, 0.1, 0.5),
  unanswered: fc.constantFrom(0, 0.1, 0.5),
});
