/** Responses to cached denials in the proxy: a cached response equals one that is built from the decision. */
import * as fc from "fast-check";
import { expect, it } from "vitest";
import { denyByLimits } from "../../../src/http/proxy/denial.ts";
import type { Runtime } from "../../../src/http/runtime.ts";
import { Admission } from "../../../src/limiter/isolate/admission.ts";
import type { Spend } from "../../../src/limiter/isolate/outcome.ts";
import { strategies } from "../../../src/strategies/index.ts";
import { spendOf, TestIsolate } from "../../fakes/isolate.ts";
import { forAll } from "../../for-all.ts";

interface Request {
  /** Includes the spend that is denied. */
  readonly spends: readonly Spend[];
  readonly hasLegacyHeaders: boolean;
  readonly denyStatus: number | undefined;
}

/** The status, fields and body of the answer to a denial. */
async function answerTo(admission: Admission, request: Request): Promise<readonly unknown[]> {
  const { spends, hasLegacyHeaders, denyStatus } = request;
  const runtime = { statistics: null, denialLog: null, hasLegacyHeaders } as unknown as Runtime;
  const waitUntil = (): never => {
    throw new Error("a denial needs no work after its answer");
  };
  const response = await denyByLimits({ spends, admission }, { runtime, waitUntil, tenant: null, denyStatus });
  return [response.status, [...response.headers], await response.text()];
}

/** The same decision, as if it did not come from the deny cache. */
function decidedNow({ outcomes, decidedAtMs }: Admission): Admission {
  const admission = new Admission();
  admission.addOutcomes(outcomes);
  admission.isRefused = true;
  admission.decidedAtMs = decidedAtMs;
  return admission;
}

/** An isolate that has had a key denied. */
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

it("the proxy reuses the response to a cached denial until one of its waits in whole seconds changes", async () => {
  const spend = spendOf({ limits: "1/minute", strategy: "sliding-log" });
  const isolate = await deniedIsolate(spend);
  await isolate.clock.pass(1);
  const request = { spends: [spend], hasLegacyHeaders: false, denyStatus: undefined };
  const first = await answerTo(await isolate.admit(spend), request);
  await isolate.clock.pass(500);
  const admission = await isolate.admit(spend);
  const cachedDenial = Object.defineProperty({ ...admission.cachedDenial }, "outcomes", {
    get: () => {
      throw new Error("the outcomes are not needed");
    },
  });
  const unread = Object.assign(decidedNow(admission), { cachedDenial }) as Admission;
  expect(await answerTo(unread, request)).toEqual(first);
});
