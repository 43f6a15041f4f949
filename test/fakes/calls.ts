/** Calls to an object, as a Worker makes them. */
import { vi } from "vitest";
import type { Charge, CheckCall } from "../../src/limiter/protocol.ts";
import { type Decision, type LimitInput, parseLimits } from "../../src/strategies/index.ts";

/** A charge of one policy. The names of its limits begin with the name of the policy. */
export const charge = (limits: string | LimitInput, cost = 1, policy = "p", strategy = "fixed-window"): Charge => ({
  policy,
  limits: parseLimits(limits, { policy, strategy }),
  cost,
});

/** A charge of 100 units a minute in a sliding log. */
export const logOf = (cost: number, policy = "p"): Charge => charge("100/minute", cost, policy, "sliding-log");

export const call = (charges: Charge | readonly Charge[], key = "k"): CheckCall => ({
  key,
  charges: "policy" in charges ? [charges] : charges,
});

export const confirmed = (charges: Charge | readonly Charge[], key = "k"): CheckCall => ({
  ...call(charges, key),
  durability: "confirmed",
});

/** The remaining units of the first limit of the first charge. */
export const remainingOf = (decisions: readonly Decision[]): number | undefined => decisions[0]?.limits[0]?.remaining;

/** Runs `act` and returns the events that it logs at the level error, one per line. */
export async function eventsOf(act: () => unknown): Promise<string> {
  const errors = vi.spyOn(console, "error").mockReturnValue(undefined);
  await act();
  const events = errors.mock.calls.join("\n");
  errors.mockRestore();
  return events;
}
