/** How the statistics count requests to an app with several limiters: each request once. */
import { Hono } from "hono";
import { afterEach, expect, it, vi } from "vitest";
import { IsolateStatistics } from "../../../src/control/isolate/statistics.ts";
import { rateLimit, type RateLimitOptions } from "../../../src/sdk/package/hono.ts";
import { createTestLimiter } from "../../../src/sdk/package/test.ts";

afterEach(() => vi.restoreAllMocks());

/** Sends requests to an app with these limiters. Returns the status codes, and what was counted. */
async function visits(times: number, ...limiters: readonly (readonly RateLimitOptions[])[]) {
  vi.spyOn(console, "error").mockReturnValue(undefined);
  const requests = vi.spyOn(IsolateStatistics.prototype, "countRequest");
  const denials = vi.spyOn(IsolateStatistics.prototype, "countDenied");
  const app = new Hono();
  for (const options of limiters) app.use(rateLimit(...options));
  app.get("*", (c) => c.text("hello"));
  const env = {
    ...createTestLimiter().env,
    ADMIN_TOKENS: "the-admin-token-of-alice",
    CONTROL_PLANE: { getByName: () => ({ beat: () => Promise.reject(new Error("no control plane")) }) },
  };
  const statuses: number[] = [];
  for (let time = 0; time < times; time++) {
    // oxlint-disable-next-line no-await-in-loop -- each visit follows the answer to the previous one
    const { status } = await app.request("/", { headers: { "CF-Connecting-IP": "203.0.113.7" } }, env);
    statuses.push(status);
  }
  return { statuses, requests: requests.mock.calls.length, deniedBy: denials.mock.calls.flat() };
}

const outer = { name: "outer", limits: "9/hour" };
const inner = { name: "inner", limits: "1/minute" };

it("a request counts once for two limiters, and as denied if the second one denies it", async () => {
  const counted = await visits(3, [outer], [inner]);
  expect(counted).toEqual({ statuses: [200, 429, 429], requests: 3, deniedBy: ["inner", "inner"] });
});

it("a request that goes on because of onDeny: continue counts as allowed, unless another policy denies it", async () => {
  const continued = { ...inner, onDeny: "continue" as const };
  expect(await visits(3, [continued])).toEqual({ statuses: [200, 200, 200], requests: 3, deniedBy: [] });
  vi.restoreAllMocks();
  const strict = { name: "strict", limits: "2/hour" };
  expect(await visits(3, [continued, strict])).toEqual({
    statuses: [200, 200, 429],
    requests: 3,
    deniedBy: ["strict"],
  });
});
