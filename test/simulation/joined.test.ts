/**
 * Simulations of requests that join their checks in one call. Calls are delayed, lost, late or never answered, objects
 * crash, and requests end early. A failure prints the command that repeats it.
 */
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { isFull } from "../mode.ts";
import { randomFrom } from "../random.ts";
import { Checks } from "./control/checks.ts";
import { type JoinedInvariant, joinedInvariants } from "./joined/invariants.ts";
import { type Situation, situations } from "./joined/ledger.ts";
import { resolversOfRequest } from "./joined/request-context.ts";
import { drawSchedule } from "./joined/schedules.ts";
import { type CallSizes, play } from "./joined/simulation.ts";

const repeated = process.env["SEED"];

const seedsOf = (count: number): readonly number[] =>
  repeated === undefined ? Array.from({ length: count }, (_, index) => index + 1) : [Number(repeated)];

const command = (seed: number): string => `SEED=${seed} npx vitest run --project pure test/simulation/joined.test.ts`;

/** The sums over all simulations, for the checks of the last tests. */
const all = new Checks<JoinedInvariant>();
const sizes: CallSizes = new Map();
const given = new Map<Situation, number>();

/** The schedules of a short run are a part of those for which the least numbers below are stated. */
const share = isFull ? 1 : 0.3;

/** The least number of times that 50 schedules must check each invariant. */
const leastChecks: Readonly<Record<JoinedInvariant, number>> = {
  "decisions: those of an object that decides the same checks one by one": 2_000,
  "decisions: those of a naive log that decides the checks one by one": 2_000,
  "decisions: a key admits no more in any window than the strategy's bound": 500,
  "charges: an admitted request is charged exactly once": 1_000,
  "charges: a denied request is charged nothing": 500,
  "charges: a request that its failure mode answers is charged at most once": 500,
  "charges: a late reply to a refused request is refunded": 300,
  "charges: a request is not sent after its answer": 1_000,
  "waits: a request is answered by its deadline": 1_000,
  "waits: a check is sent within the longest wait": 1_000,
  "waits: without faults, an object decides every request": 300,
  "ends: no timer of a request is left": 1_000,
  "ends: every request has an answer": 1_000,
};

/** The least number of times that each situation must occur in 50 schedules. */
const leastTimes = 3;

/**
 * A number of requests, and the least number of calls in 50 schedules that contain checks of at least that many
 * requests.
 */
const leastCalls = [
  [2, 120],
  [5, 50],
  [10, 25],
  [25, 3],
] as const;

beforeAll(() => {
  for (const method of ["error", "warn"] as const) {
    vi.spyOn(console, method).mockReturnValue(undefined);
  }
  vi.spyOn(Promise, "withResolvers").mockImplementation(resolversOfRequest);
});
afterAll(() => void vi.restoreAllMocks());

describe("simulations of joined calls", () => {
  it("joined calls violate no invariant under any schedule of faults", async () => {
    for (const seed of seedsOf(isFull ? 200 : 50 * share)) {
      const random = randomFrom(seed);
      // oxlint-disable-next-line no-await-in-loop
      const played = await play(drawSchedule(random), random);
      all.add(played.checks);
      for (const [size, calls] of played.sizes) sizes.set(size, (sizes.get(size) ?? 0) + calls);
      for (const [situation, times] of played.situations) {
        given.set(situation, (given.get(situation) ?? 0) + times);
      }
      const { violations } = played.checks;
      if (violations.length > 0) {
        throw new Error(`${violations.join("\n")}\nrepeat it with: ${command(seed)}`);
      }
    }
  });

  it.skipIf(repeated !== undefined).each(joinedInvariants)(
    "the simulations check this invariant often enough: %s",
    (invariant) => {
      expect(all.counts.get(invariant) ?? 0).toBeGreaterThanOrEqual(leastChecks[invariant] * share);
    },
  );

  it.skipIf(repeated !== undefined).each(situations)(
    "the simulations play this situation often enough: %s",
    (situation) => {
      expect(given.get(situation) ?? 0).toBeGreaterThanOrEqual(leastTimes * share);
    },
  );

  it.skipIf(repeated !== undefined).each(leastCalls)(
    "the simulations send enough calls that contain the checks of at least %i requests",
    (requests, least) => {
      const calls = [...sizes].filter(([size]) => size >= requests);
      expect(calls.reduce((sum, [, each]) => sum + each, 0)).toBeGreaterThanOrEqual(least * share);
    },
  );
});
