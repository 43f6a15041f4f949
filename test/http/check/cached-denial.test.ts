/** Answers of `/check` to cached denials: an answer made of cached text equals one that is built from the decision. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { admittedCheck, decidedCheck, serializedAnswer } from "../../../src/http/check/answers.ts";
import { serialized, type SerializedAnswer } from "../../../src/http/check/serialized-answer.ts";
import { isFailure } from "../../../src/http/wire/problems.ts";
import type { Admission } from "../../../src/limiter/isolate/admission.ts";
import type { Spend } from "../../../src/limiter/isolate/outcome.ts";
import { strategies } from "../../../src/strategies/index.ts";
import { spendOf, TestIsolate } from "../../fakes/isolate.ts";
import { forAll } from "../../for-all.ts";

const resolvedOf = (spend: Spend, isDryRun = false) => ({ spend, uncharged: null, isDryRun });

/** The answer to a denial, as `/check` writes it. */
const serializedFor = (spend: Spend, admission: Admission, isDryRun = false) =>
  serializedAnswer(admittedCheck(resolvedOf(spend, isDryRun), admission));

/** The answer that is built from the outcome alone. */
function builtFor(spend: Spend, { outcomes }: Admission, isDryRun = false): SerializedAnswer {
  const [outcome] = outcomes;
  if (outcome === undefined) throw new Error("an object decided");
  const { answer } = decidedCheck(resolvedOf(spend, isDryRun), outcome);
  if (isFailure(answer)) throw new Error("the answer has a decision");
  return serialized(answer);
}

/** An isolate after a denial, which it caches if the object's denial is firm. */
async function deniedIsolate(spend: Spend): Promise<TestIsolate> {
  const isolate = new TestIsolate();
  for (let requests = 0; requests < 30; requests++) {
    // oxlint-disable-next-line no-await-in-loop
    if ((await isolate.admit(spend)).isRefused) return isolate;
  }
  throw new Error("a denial was expected");
}

const anyLimit = fc
  .tuple(
    fc.constantFrom(...strategies.keys()),
    fc.integer({ min: 1, max: 9 }),
    fc.constantFrom("600ms", "1s", "1500ms", "7s", "10m", "30d"),
  )
  .map(([strategy, limit, window]) => ({ strategy, limit, window }));

const someLimits = fc.uniqueArray(anyLimit, {
  minLength: 1,
  maxLength: 4,
  selector: ({ strategy, window }) => `${strategy}/${window}`,
});

describe("the answer to a cached denial", () => {
  it(
    "the answer made of cached text equals the answer built from the decision, for every strategy and age",
    forAll(
      [someLimits, fc.integer({ min: 1, max: 12 }), fc.array(fc.nat({ max: 400 }))],
      async (limits, cost, steps) => {
        const spend = spendOf({ limits }, cost);
        const isolate = await deniedIsolate(spend);
        const isFirm = limits.every(({ strategy }) => strategy !== "concurrency");
        expect((await isolate.admit(spend)).cachedDenial !== null).toBe(isFirm);
        for (const stepMs of [0, ...steps]) {
          // oxlint-disable-next-line no-await-in-loop
          await isolate.clock.pass(stepMs);
          // oxlint-disable-next-line no-await-in-loop
          const admission = await isolate.admit(spend);
          const answer = serializedFor(spend, admission);
          expect(answer).toEqual(builtFor(spend, admission));
        }
      },
    ),
  );

  it(
    "the answer to a cached denial is right for ages in any order, as after a step back of the clock",
    forAll([fc.array(fc.nat({ max: 999 }), { minLength: 2 })], async (agesMs) => {
      const spend = spendOf({ limits: "2/minute; 9/hour" });
      const isolate = await deniedIsolate(spend);
      const deniedAtMs = isolate.clock.nowMs;
      for (const ageMs of agesMs) {
        isolate.clock.nowMs = deniedAtMs + ageMs;
        // oxlint-disable-next-line no-await-in-loop
        const admission = await isolate.admit(spend);
        expect(admission.cachedDenial?.ageMs).toBe(ageMs);
        expect(serializedFor(spend, admission)).toEqual(builtFor(spend, admission));
      }
    }),
  );

  it("an answer made of cached text reads no outcomes until a wait in whole seconds changes", async () => {
    const spend = spendOf({ limits: "1/minute", strategy: "sliding-log" });
    const isolate = await deniedIsolate(spend);
    serializedFor(spend, await isolate.admit(spend));
    await isolate.clock.pass(500);
    const admission = await isolate.admit(spend);
    if (admission.cachedDenial === null) throw new Error("expected a cached denial");
    const { denial, ageMs } = admission.cachedDenial;
    const unread = Object.defineProperty({ denial, ageMs }, "outcomes", {
      get: () => {
        throw new Error("the outcomes are not needed");
      },
    });
    const unbuilt = Object.assign(Object.create(admission), { cachedDenial: unread }) as Admission;
    expect(serializedFor(spend, unbuilt)).toEqual(builtFor(spend, admission));
  });

  it("a dry run and an enforced check have different answers to the same cached denial", async () => {
    const spend = spendOf();
    const isolate = await deniedIsolate(spend);
    const admission = await isolate.admit(spend);
    expect(admission.cachedDenial).not.toBe(null);
    expect(serializedFor(spend, admission)).toMatchObject({ allowed: false });
    expect(serializedFor(spend, admission, true)).toEqual(builtFor(spend, admission, true));
    expect(serializedFor(spend, admission, true)).toMatchObject({ allowed: true, headers: {} });
  });
});
