/** The answers to remembered denials: those made of kept text equal those that are built from a decision. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { admittedCheck, decidedCheck, writtenAnswer } from "../../../src/http/check/answers.ts";
import { written, type WrittenAnswer } from "../../../src/http/check/written-answer.ts";
import { isFailure } from "../../../src/http/wire/problems.ts";
import type { Admission } from "../../../src/limiter/client/admission.ts";
import type { Spend } from "../../../src/limiter/client/outcome.ts";
import { strategies } from "../../../src/strategies/index.ts";
import { spendOf, TestIsolate } from "../../fakes/isolate.ts";
import { forAll } from "../../for-all.ts";

const resolvedOf = (spend: Spend, isDryRun = false) => ({ spend, uncharged: null, isDryRun });

/** The answer to a denial, as `/check` writes it. */
const writtenFor = (spend: Spend, admission: Admission, isDryRun = false) =>
  writtenAnswer(admittedCheck(resolvedOf(spend, isDryRun), admission));

/** The answer that is built from the outcome alone. */
function builtFor(spend: Spend, { outcomes }: Admission, isDryRun = false): WrittenAnswer {
  const [outcome] = outcomes;
  if (outcome === undefined) throw new Error("an object decided");
  const { answer } = decidedCheck(resolvedOf(spend, isDryRun), outcome);
  if (isFailure(answer)) throw new Error("the answer has a decision");
  return written(answer);
}

/** An isolate that has had a key denied, which it remembers where the object's denial is firm. */
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

describe("the answer to a remembered denial", () => {
  it(
    "for every strategy and age, the answer made of kept text equals the built answer",
    forAll(
      [someLimits, fc.integer({ min: 1, max: 12 }), fc.array(fc.nat({ max: 400 }))],
      async (limits, cost, steps) => {
        const spend = spendOf({ limits }, cost);
        const isolate = await deniedIsolate(spend);
        const isFirm = limits.every(({ strategy }) => strategy !== "concurrency");
        expect((await isolate.admit(spend)).recalled !== null).toBe(isFirm);
        for (const stepMs of [0, ...steps]) {
          // oxlint-disable-next-line no-await-in-loop
          await isolate.clock.pass(stepMs);
          // oxlint-disable-next-line no-await-in-loop
          const admission = await isolate.admit(spend);
          const answer = writtenFor(spend, admission);
          expect(answer).toEqual(builtFor(spend, admission));
        }
      },
    ),
  );

  it(
    "the answer is also right for ages in any order, as after a step back of the clock",
    forAll([fc.array(fc.nat({ max: 999 }), { minLength: 2 })], async (agesMs) => {
      const spend = spendOf({ limits: "2/minute; 9/hour" });
      const isolate = await deniedIsolate(spend);
      const deniedAtMs = isolate.clock.nowMs;
      for (const ageMs of agesMs) {
        isolate.clock.nowMs = deniedAtMs + ageMs;
        // oxlint-disable-next-line no-await-in-loop
        const admission = await isolate.admit(spend);
        expect(admission.recalled?.ageMs).toBe(ageMs);
        expect(writtenFor(spend, admission)).toEqual(builtFor(spend, admission));
      }
    }),
  );

  it("the built answer is not needed until a wait in seconds changes", async () => {
    const spend = spendOf({ limits: "1/minute", strategy: "sliding-log" });
    const isolate = await deniedIsolate(spend);
    writtenFor(spend, await isolate.admit(spend));
    await isolate.clock.pass(500);
    const admission = await isolate.admit(spend);
    if (admission.recalled === null) throw new Error("the denial is remembered");
    const { denial, ageMs } = admission.recalled;
    const unread = Object.defineProperty({ denial, ageMs }, "outcomes", {
      get: () => {
        throw new Error("the outcomes are not needed");
      },
    });
    const recalled = Object.assign(Object.create(admission), { recalled: unread }) as Admission;
    expect(writtenFor(spend, recalled)).toEqual(builtFor(spend, admission));
  });

  it("a dry run has its own answer to a denial that enforced checks remember too", async () => {
    const spend = spendOf();
    const isolate = await deniedIsolate(spend);
    const admission = await isolate.admit(spend);
    expect(admission.recalled).not.toBe(null);
    expect(writtenFor(spend, admission)).toMatchObject({ allowed: false });
    expect(writtenFor(spend, admission, true)).toEqual(builtFor(spend, admission, true));
    expect(writtenFor(spend, admission, true)).toMatchObject({ allowed: true, headers: {} });
  });
});
