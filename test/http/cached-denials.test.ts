/** A response to a cached denial equals the response that is built from the decision. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { admittedCheck, decidedCheck, decidedText } from "../../src/http/check/answer.ts";
import { denyByLimits } from "../../src/http/proxy/denial.ts";
import type { Runtime } from "../../src/http/runtime.ts";
import { type Spend, ChargeResult } from "../../src/limiter/isolate/outcome.ts";
import { strategies } from "../../src/strategies/index.ts";
import { spendOf, TestIsolate } from "../fakes/isolate.ts";
import { forAll } from "../for-all.ts";

interface Request {
  /** All spends of the request, including the one that is denied. */
  readonly spends: readonly Spend[];
  readonly hasLegacyHeaders: boolean;
  readonly denyStatus: number | undefined;
}

/** The status, fields and body of the answer to a denial. */
async function answerTo(admission: ChargeResult, request: Request): Promise<readonly unknown[]> {
  const { spends, hasLegacyHeaders, denyStatus } = request;
  const runtime = { statistics: null, denialLog: null, hasLegacyHeaders } as unknown as Runtime;
  const waitUntil = (): never => {
    throw new Error("a denial needs no work after its answer");
  };
  const response = await denyByLimits({ spends, admission }, { runtime, waitUntil, tenant: null, denyStatus });
  return [response.status, [...response.headers], await response.text()];
}

/** The same denial, as if it did not come from the deny cache. */
function decidedNow({ outcomes, decidedAtMs }: ChargeResult): ChargeResult {
  const admission = new ChargeResult();
  admission.addOutcomes(outcomes);
  admission.isRefused = true;
  admission.decidedAtMs = decidedAtMs;
  return admission;
}

/** The same denial from the deny cache. Reading its outcomes throws. */
function withoutOutcomes(admission: ChargeResult): ChargeResult {
  const outcomes = {
    get: () => {
      throw new Error("the outcomes are not needed");
    },
  };
  const cachedDenial: unknown = Object.create(admission.cachedDenial, { outcomes });
  return Object.assign(decidedNow(admission), { cachedDenial }) as ChargeResult;
}

/** An isolate whose object has denied the spend. */
async function deniedIsolate(spend: Spend): Promise<TestIsolate> {
  const isolate = new TestIsolate();
  for (let requests = 0; requests < 30; requests++) {
    // oxlint-disable-next-line no-await-in-loop
    if ((await isolate.admit(spend)).isRefused) return isolate;
  }
  throw new Error("a denial was expected");
}

const cacheable = [...strategies.keys()].filter((strategy) => strategy !== "concurrency");

const someLimits = fc.uniqueArray(
  fc
    .tuple(
      fc.constantFrom(...cacheable),
      fc.integer({ min: 1, max: 9 }),
      fc.constantFrom("600ms", "1s", "1500ms", "7s", "10m", "30d"),
    )
    .map(([strategy, limit, window]) => ({ strategy, limit, window })),
  {
    minLength: 1,
    maxLength: 4,
    selector: ({ strategy, window }) => `${strategy}/${window}`,
  },
);

const someAnswer = fc.constantFrom<object>(
  {},
  { onDeny: { status: 420 } },
  { onDeny: { body: "Slow down.", contentType: "text/html" } },
  { ban: { after: 1, within: "1m", for: "1500ms" } },
);

const other = spendOf({ name: "other", limits: "7/hour", key: "global" });
const calendar = spendOf({ name: "calendar", limits: "7/month", key: "global" });

it(
  "a cached response to a denial equals the response built from the decision, for every strategy and age",
  forAll(
    [
      someLimits,
      someAnswer,
      fc.integer({ min: 1, max: 12 }),
      fc.boolean(),
      fc.array(
        fc.record({
          stepMs: fc.nat({ max: 300 }),
          others: fc.subarray([other, calendar]),
          denyStatus: fc.constantFrom(undefined, 403),
        }),
        { minLength: 1, maxLength: 10 },
      ),
    ],
    async (limits, fields, cost, hasLegacyHeaders, steps) => {
      const spend = spendOf({ limits, ...fields }, cost);
      const isolate = await deniedIsolate(spend);
      for (const { stepMs, others, denyStatus } of steps) {
        // oxlint-disable-next-line no-await-in-loop
        await isolate.clock.pass(stepMs);
        // oxlint-disable-next-line no-await-in-loop
        const admission = await isolate.admit(spend);
        if (!admission.isRefused) continue;
        const request = { spends: [...others, spend], hasLegacyHeaders, denyStatus };
        // oxlint-disable-next-line no-await-in-loop
        const answers = await Promise.all([answerTo(admission, request), answerTo(decidedNow(admission), request)]);
        expect(answers[0]).toEqual(answers[1]);
      }
    },
  ),
);

it("the proxy reuses the response to a cached denial until a wait in it, in whole seconds, changes", async () => {
  const spend = spendOf({ limits: "1/minute", strategy: "sliding-log" });
  const isolate = await deniedIsolate(spend);
  await isolate.clock.pass(1);
  const request = { spends: [spend], hasLegacyHeaders: false, denyStatus: undefined };
  const first = await answerTo(await isolate.admit(spend), request);
  await isolate.clock.pass(500);
  const admission = await isolate.admit(spend);
  expect(await answerTo(withoutOutcomes(admission), request)).toEqual(first);
});

const resolvedOf = (spend: Spend, isDryRun = false) => ({ spend, uncharged: null, isDryRun });

/** The text with which `/check` answers a denial. */
const checkAnswer = (spend: Spend, admission: ChargeResult, isDryRun = false) =>
  decidedText(admittedCheck(resolvedOf(spend, isDryRun), admission));

/** The same text, built from the outcome alone. */
function builtAnswer(spend: Spend, { outcomes }: ChargeResult, isDryRun = false) {
  const [outcome] = outcomes;
  if (outcome === undefined) throw new Error("an object decided");
  return decidedText(decidedCheck(resolvedOf(spend, isDryRun), outcome));
}

const anyLimit = fc
  .tuple(
    fc.constantFrom(...strategies.keys()),
    fc.integer({ min: 1, max: 9 }),
    fc.constantFrom("600ms", "1s", "1500ms", "7s", "10m", "30d"),
  )
  .map(([strategy, limit, window]) => ({ strategy, limit, window }));

const anyLimits = fc.uniqueArray(anyLimit, {
  minLength: 1,
  maxLength: 4,
  selector: ({ strategy, window }) => `${strategy}/${window}`,
});

describe("the answer of `/check` to a cached denial", () => {
  it(
    "the answer equals the one built from the decision, for every strategy and age",
    forAll(
      [anyLimits, fc.integer({ min: 1, max: 12 }), fc.array(fc.nat({ max: 400 }))],
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
          const answer = checkAnswer(spend, admission);
          expect(answer).toEqual(builtAnswer(spend, admission));
        }
      },
    ),
  );

  it(
    "the answer is right for ages in any order, as after a step back of the clock",
    forAll([fc.array(fc.nat({ max: 999 }), { minLength: 2 })], async (agesMs) => {
      const spend = spendOf({ limits: "2/minute; 9/hour" });
      const isolate = await deniedIsolate(spend);
      const deniedAtMs = isolate.clock.nowMs;
      for (const ageMs of agesMs) {
        isolate.clock.nowMs = deniedAtMs + ageMs;
        // oxlint-disable-next-line no-await-in-loop
        const admission = await isolate.admit(spend);
        expect(admission.cachedDenial?.ageMs).toBe(ageMs);
        expect(checkAnswer(spend, admission)).toEqual(builtAnswer(spend, admission));
      }
    }),
  );

  it("an answer to a cached denial is reused, without reading its outcomes, until a wait in whole seconds changes", async () => {
    const spend = spendOf({ limits: "1/minute", strategy: "sliding-log" });
    const isolate = await deniedIsolate(spend);
    await isolate.clock.pass(1);
    checkAnswer(spend, await isolate.admit(spend));
    await isolate.clock.pass(500);
    const admission = await isolate.admit(spend);
    expect(checkAnswer(spend, withoutOutcomes(admission))).toEqual(builtAnswer(spend, admission));
  });

  it("one cached denial is answered differently to a dry run and to an enforced check", async () => {
    const spend = spendOf();
    const isolate = await deniedIsolate(spend);
    const admission = await isolate.admit(spend);
    expect(admission.cachedDenial).not.toBe(null);
    expect(checkAnswer(spend, admission)).toMatchObject({ allowed: false });
    expect(checkAnswer(spend, admission, true)).toEqual(builtAnswer(spend, admission, true));
    expect(checkAnswer(spend, admission, true)).toMatchObject({ allowed: true, headers: {} });
  });
});
