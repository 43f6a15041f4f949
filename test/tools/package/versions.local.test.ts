/**
 * Isolates with `headgate/hono` and isolates of the previous version share objects of either version. The previous
 * version runs as a whole Worker, whose isolates answer `/check`.
 */
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTestHarness, type TestHarness } from "wrangler";
import { type FreshApp, freshApp, patient } from "./fresh-app.ts";

const worker = `import { Hono } from "hono";
import { rateLimit } from "headgate/hono";

export { RateLimiter } from "headgate/object";

const limits = { limit: 8, window: "1h", strategy: "sliding-log" } as const;
const shared = { key: "header:X-User", limits, timeout: "${patient}" };
const app = new Hono();
app.use("/strict", rateLimit({ ...shared, name: "strict" }));
app.use("/leased", rateLimit({ ...shared, name: "leased", consistency: "leased" }));
app.use("/reserved", rateLimit({ ...shared, name: "reserved", cost: 5, reserve: true }));
app.get("/reserved", async (c) => c.json({ settled: await c.get("headgate").settle(2) }));
app.get("/:policy", (c) => c.json({}));
export default app;
`;

const shared = {
  key: "header:X-User",
  limits: [{ limit: 8, window: "1h", strategy: "sliding-log" }],
  timeout: patient,
};
const policies = [
  { ...shared, name: "strict" },
  { ...shared, name: "leased", consistency: "leased" },
  { ...shared, name: "reserved" },
];

const token = "a-token-of-the-previous-version";
const secrets = { KEY_SECRET: "a secret of more than thirty-two characters" };

type Version = "current" | "previous";

/** A Worker of one version whose objects are of its own or of the other version. */
const configuration = (isolates: Version, objects: Version): string => `name = "${isolates}-on-${objects}"
main = "${isolates === "current" ? "src/index.ts" : "previous.js"}"
compatibility_date = "2026-11-01"
compatibility_flags = ["enable_request_signal"]

[[durable_objects.bindings]]
name = "RATE_LIMITER"
class_name = "RateLimiter"
${isolates === objects ? "" : `script_name = "${objects}-on-${objects}"`}

[[migrations]]
tag = "v1"
new_sqlite_classes = ["RateLimiter"]
`;

const versions = ["current", "previous"] as const;
const pairs = versions.flatMap((objects) =>
  versions.map((isolates) => ({ isolates, objects, name: `${isolates}-on-${objects}` })),
);

let app: FreshApp;
let server: TestHarness;

beforeAll(async () => {
  const configurations = pairs.map(({ isolates, objects, name }) => [`${name}.toml`, configuration(isolates, objects)]);
  app = await freshApp({ "src/index.ts": worker, ...Object.fromEntries(configurations) }, [
    "@cloudflare/workers-types",
    "hono",
  ]);
  copyFileSync("test/previous-version/worker.js", join(app.folder, "previous.js"));
  const workers = pairs.map(({ isolates, name }) => ({
    configPath: join(app.folder, `${name}.toml`),
    ...(isolates === "current"
      ? { secrets }
      : {
          secrets: { ...secrets, CHECK_TOKENS: token },
          vars: { ORIGIN: "https://origin.example", POLICIES: policies },
        }),
  }));
  server = createTestHarness({ workers });
  await server.listen();
});

afterAll(async () => {
  await server.close();
  app.remove();
});

/** Whether the middleware allows a request. */
async function isAllowed(objects: Version, policy: string, user: string): Promise<boolean> {
  const response = await server
    .getWorker(`current-on-${objects}`)
    .fetch(`https://app.example/${policy}`, { headers: { "x-user": user } });
  await response.arrayBuffer();
  expect([200, 429]).toContain(response.status);
  return response.status === 200;
}

interface Answer {
  readonly allowed: boolean;
  readonly limits: readonly { readonly remaining: number }[];
}

/** The response to a `/check` call of the previous version. */
async function check(objects: Version, body: object): Promise<Answer> {
  const response = await server.getWorker(`previous-on-${objects}`).fetch("https://previous.example/check", {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const answer = await response.json();
  expect(answer).toMatchObject({ allowed: expect.any(Boolean) });
  return answer as Answer;
}

describe.each(versions)("objects of the %s version", (objects) => {
  it("isolates of both versions together allow exactly the limit of a key", async () => {
    const decisions = await Promise.all(
      Array.from({ length: 10 }, () => [
        isAllowed(objects, "strict", "both"),
        check(objects, { policy: "strict", key: "both" }).then(({ allowed }) => allowed),
      ]).flat(),
    );
    expect(decisions.filter(Boolean)).toHaveLength(8);
    const own = server.getWorker(`${objects}-on-${objects}`);
    expect(await own.listDurableObjectIds("RateLimiter")).not.toEqual([]);
  });

  it("isolates of both versions together borrow no more than the limit of a key", async () => {
    const decisions: boolean[] = [];
    for (let sent = 0; sent < 12; sent += 1) {
      decisions.push(await isAllowed(objects, "leased", "both"));
      decisions.push((await check(objects, { policy: "leased", key: "both" })).allowed);
    }
    const allowed = decisions.filter(Boolean).length;
    expect(allowed).toBeLessThanOrEqual(8);
    expect(allowed).toBeGreaterThan(0);
  });

  it("the previous version sees the units that remain after the middleware has settled a reservation", async () => {
    expect(await isAllowed(objects, "reserved", "one")).toBe(true);
    const { limits } = await check(objects, { policy: "reserved", key: "one", cost: 0 });
    expect(limits[0]?.remaining).toBe(6);
  });
});
