/** Reads the written limits of a change as the engine does. */
import type { Decider } from "../replay/comparison.ts";
import type { Change, WrittenDecider } from "./ways.ts";

/** A change whose limits are read. */
export interface DecidedChange extends Omit<Change, "ways"> {
  readonly titles: readonly string[];
  readonly deciders: readonly Decider[];
}

/** Null when limits have a problem. */
export async function readWays({ ways, ...change }: Change): Promise<DecidedChange | null> {
  const deciders = await Promise.all(ways.map(({ decider }) => readDecider(decider, change.policy)));
  const known = deciders.filter((decider) => decider !== null);
  if (known.length < deciders.length) return null;
  return { ...change, titles: ways.map(({ title }) => title), deciders: known };
}

async function readDecider(decider: WrittenDecider, policy: string): Promise<Decider | null> {
  if (decider.kind !== "written") return decider;
  const { limitsWritten } = await import("../policies/written-limits.ts");
  const { limits, problems } = limitsWritten(decider.limits, decider.strategy, policy);
  return problems.length > 0 ? null : { kind: "limits", limits };
}
