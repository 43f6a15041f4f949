/** What is accepted of a policy and should rather not be used. */
import { createMeter, type Limit, releases, strategies } from "../strategies/index.ts";
import { mostReserved, reservedCost } from "./cost.ts";
import { keyWarning } from "./key.ts";
import type { Policy } from "./policy.ts";

interface Warning {
  /** The field of the policy that it is about. */
  readonly field: string;
  readonly text: string;
}

export function warningsOf(policy: Policy): Warning[] {
  const { name, limits, exceptions, cost, key, objects } = policy;
  const warnings = limits.flatMap((limit) =>
    limitWarnings(limit).map((text) => ({
      field: "limits",
      text: `the limit "${limit.name}" of the policy "${name}": ${text}`,
    })),
  );
  const all = [limits, ...exceptions.overrides.map((override) => override.limits)];
  const isTooMuch = (each: readonly Limit[]): boolean =>
    createMeter(each).look(reservedCost(cost), 0).retryAfterMs === null;
  if (all.some(isTooMuch)) {
    const text = "a request costs more than the limits ever hold: every one is denied";
    warnings.push({ field: "cost", text: `the policy "${name}": ${text}` });
  }
  const text = objects.shards === null ? keyWarning(key) : null;
  if (text !== null) warnings.push({ field: "key", text: `the policy "${name}": ${text}` });
  return warnings;
}

function limitWarnings(limit: Limit): string[] {
  const own = strategies.get(limit.strategy)?.warning(limit) ?? null;
  const isUnreachable = releases(limit) && limit.limit > mostReserved;
  const bound = `no more than ${mostReserved} requests of a key can be in flight through the proxy`;
  return [...(own === null ? [] : [own]), ...(isUnreachable ? [bound] : [])];
}
