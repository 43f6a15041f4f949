/**
 * Simulations of the control plane with faults at any moment: beats and pushes are lost, repeated and late, isolates
 * and objects crash, and the control plane is killed, hangs or is restored. A failure prints the command that repeats
 * it.
 */
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { hasTime, isFull } from "../mode.ts";
import { Checks, type Invariant, invariants } from "./control/checks.ts";
import { disturbed, type Schedule, withAndWithout } from "./control/schedules.ts";

const repeated = process.env["SEED"];

const seedsOf = (count: number, first = 1): readonly number[] =>
  repeated === undefined ? Array.from({ length: count }, (_, index) => index + first) : [Number(repeated)];

const command = (seed: number): string => `SEED=${seed} npx vitest run --project pure test/simulation/control.test.ts`;

/** The counts of all simulations, for the last test. */
const all = new Checks();

async function simulate(schedule: Schedule, seeds: readonly number[]): Promise<void> {
  for (const seed of seeds) {
    // oxlint-disable-next-line no-await-in-loop
    const checks = await schedule(seed);
    all.add(checks);
    if (checks.violations.length > 0) {
      throw new Error(`${checks.violations.join("\n")}\nrepeat it with: ${command(seed)}`);
    }
  }
}

/** The schedules and comparisons of a short run are a quarter of those for which `leastChecks` are stated. */
const share = isFull ? 1 : 1 / 4;

/** The least number of times that 40 schedules and 8 comparisons must check each invariant. */
const leastChecks: Readonly<Record<Invariant, number>> = {
  "statistics: the control plane has at most what isolates recorded": 2_000,
  "statistics: after the last beats, the control plane has exactly what isolates recorded": 60,
  "spends: a request is charged at most once": 5_000,
  "spends: an object has counted exactly what its replies charged": 250,
  "stale calls: no call is decided by older policy rules than an earlier one": 5_000,
  "stale calls: a refused call gets rules that are newer than its own": 50,
  "versions: one version of a policy has one text": 5_000,
  "key rules: a decision obeys the rules that its object has received": 5_000,
  "key rules: a decision obeys each rule that was confirmed to the operator": 800,
  "key rules: a push contains each confirmed rule, and none that was removed": 50,
  "key rules: a rule ends on its millisecond by the object's clock": 60,
  "key rules: in the end each is applied": 40,
  "isolates: rules never become older": 5_000,
  "isolates: in the end they have the rules of the control plane": 50,
  "precedence: an isolate resolves a key as the table states": 5_000,
  "precedence: the limits that decide are those that the table states": 5_000,
  "fail static: a decision is the same without the control plane": 500,
  "fail static: after its return, isolates with traffic have its rules": 50,
};

/** Silences the log, in which objects and the control plane report each fault. */
beforeAll(() => {
  for (const method of ["error", "warn"] as const) {
    vi.spyOn(console, method).mockReturnValue(undefined);
  }
});
afterAll(() => void vi.restoreAllMocks());

describe("simulations of the control plane", () => {
  it.each(hasTime && repeated === undefined ? [1, 51] : [1])(
    "no schedule of faults violates an invariant: seeds from %i",
    async (first) => {
      await simulate(disturbed, seedsOf(isFull ? 50 : 40 * share, first));
    },
  );

  it("while the control plane is killed or hangs, every request is decided with the same result and as fast as without this fault", async () => {
    await simulate(withAndWithout, seedsOf(isFull ? 20 : 8 * share));
  });

  it.skipIf(repeated !== undefined).each(invariants)("the simulations have checked often enough: %s", (invariant) => {
    expect(all.counts.get(invariant) ?? 0).toBeGreaterThanOrEqual(leastChecks[invariant] * share);
  });
});
