/** The options of other packages have the results that the migration table promises for those of `rateLimit`. */
import { mock } from "node:test";
import { describe, expect, it } from "vitest";
import { rateLimit as expressRateLimit } from "express-rate-limit";
import { rateLimit } from "../../../src/sdk/package/hono.ts";
import { type Case, cases, resultOf, statedResult } from "./cases.ts";
import { packages, type PeerOptions, type RunningApp } from "./peer-apps.ts";
import type { Answer } from "./requests.ts";

const startMs = Date.UTC(2026, 10, 23);

/** Each package of a case, with a function that starts an app with the case's options. */
const peersOf = ({ peers }: Case): (readonly [string, () => Promise<RunningApp[]>])[] =>
  Object.entries(packages).flatMap(([name, start]) => {
    const stated = Object.entries(peers).find(([beginning]) => name.startsWith(beginning));
    if (stated === undefined) return [];
    return [[name, () => twoCopies(start, stated[1])] as const];
  });

function twoCopies(
  start: (options: PeerOptions) => RunningApp | Promise<RunningApp>,
  options: PeerOptions | (() => PeerOptions),
): Promise<RunningApp[]> {
  const given = typeof options === "function" ? options() : options;
  return Promise.all([start(given), start(given)]);
}

async function answersOf(copies: readonly RunningApp[], { steps }: Case): Promise<Answer[]> {
  const answers: Answer[] = [];
  for (const { afterMs = 0, copy = 0, ...ask } of steps) {
    mock.timers.tick(afterMs);
    const answer = await copies[copy]?.send(ask);
    if (answer !== undefined) answers.push(answer);
  }
  return answers;
}

describe.each(cases)("the row $row of the migration table", (each) => {
  it.each(peersOf(each))("the package %s has the result that the migration table states", async (_, start) => {
    mock.timers.enable({ apis: ["Date"], now: startMs });
    const copies = await start();
    try {
      expect(resultOf(await answersOf(copies, each), each)).toEqual(statedResult(each));
    } finally {
      for (const copy of copies) copy.close();
      mock.timers.reset();
    }
  });
});

it.each(["hono-rate-limiter 0.4", "hono-rate-limiter 0.5"] as const)(
  "the store that %s provides as requestStorePropertyName resets a key",
  async (name) => {
    const { send } = packages[name]({ limit: 3, requestStorePropertyName: "quotaStore" });
    const statuses: number[] = [];
    for (const path of ["/", "/", "/reset", "/", "/", "/", "/"]) {
      statuses.push((await send({ path })).status);
    }
    expect(statuses).toEqual([200, 200, 200, 200, 200, 200, 429]);
  },
);

it("express-rate-limit logs an invalid option, and rateLimit throws an error", () => {
  const errors: unknown[] = [];
  const logger = { error: (error: unknown) => errors.push(error), warn: () => undefined };
  const invalid = { limmit: 1 };
  expressRateLimit({ ...invalid, validate: true, logger });
  expect(String(errors[0])).toContain("option: limmit");
  expect(() => rateLimit({ limits: "1/minute", ...invalid })).toThrow("rateLimit.limmit");
});
