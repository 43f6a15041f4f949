/** C: cross-origin requests of scripts in browsers (Fetch, section 3.3). */
import { expect, it, vi } from "vitest";
import { from, headgate, statusOf } from "../http/harness.ts";
import { visitor } from "./responses.ts";

const app = "https://app.example.com";
const script = { headers: { ...visitor.headers, Origin: app } };
const preflight = {
  method: "OPTIONS",
  headers: { ...script.headers, "Access-Control-Request-Method": "POST" },
};
const one = { LIMITS: "1/minute", STRATEGY: "fixed-window" };

it("C01: a preflight is charged to PREFLIGHT_LIMITS and to no policy", async () => {
  const { send } = headgate({ ...one, PREFLIGHT_LIMITS: "3/minute" });
  expect(await statusOf(send("/", visitor))).toBe(200);
  expect(await statusOf(send("/", visitor))).toBe(429);
  const statuses = [];
  for (let request = 0; request < 4; request++) {
    // oxlint-disable-next-line no-await-in-loop
    statuses.push(await statusOf(send("/", preflight)));
  }
  expect(statuses).toEqual([200, 200, 200, 429]);
  const other = from("203.0.113.8");
  const theirs = { ...preflight, headers: { ...preflight.headers, ...other.headers } };
  for (let request = 0; request < 2; request++) {
    // oxlint-disable-next-line no-await-in-loop
    expect(await statusOf(send("/", theirs))).toBe(200);
  }
  expect(await statusOf(send("/", other))).toBe(200);
});

it.for([
  [app, { origin: app, vary: "Origin" }],
  ["*", { origin: "*", vary: null }],
] as const)("C02: scripts of %s can read a 429 and a 503", async ([CORS_ORIGINS, expected]) => {
  vi.spyOn(console, "error").mockReturnValue(undefined);
  const limited = headgate({ ...one, CORS_ORIGINS });
  await statusOf(limited.send("/", visitor));
  const closed = { POLICIES: [{ name: "p", limits: "9/s", onError: "closed" }], RATE_LIMITER: {} };
  const answers = [await limited.send("/", script), await headgate({ ...closed, CORS_ORIGINS }).send("/", script)];
  expect(answers.map(({ status }) => status)).toEqual([429, 503]);
  for (const { headers } of answers) {
    expect(headers.get("Access-Control-Allow-Origin")).toBe(expected.origin);
    expect(headers.get("Vary")).toBe(expected.vary);
    const exposed = (headers.get("Access-Control-Expose-Headers") ?? "").split(", ");
    expect(exposed).toEqual(expect.arrayContaining(["RateLimit", "RateLimit-Policy", "Retry-After"]));
  }
  vi.restoreAllMocks();
});

it("C03: the origin's exposed fields are kept and extended, and no Access-Control-Allow-Origin is added", async () => {
  const { send } = headgate({ LIMITS: "9/minute", CORS_ORIGINS: "*" });
  const open = await send(`/answer?Access-Control-Allow-Origin=${app}&Access-Control-Expose-Headers=X-Mine`, script);
  expect([open.headers.get("Access-Control-Allow-Origin"), open.headers.get("Access-Control-Expose-Headers")]).toEqual([
    app,
    "X-Mine, RateLimit, RateLimit-Policy",
  ]);
  const closed = await send("/answer?X-Mine=1", script);
  expect([...closed.headers.keys()].filter((name) => name.startsWith("access-control"))).toEqual([]);
});

it.for([
  ["without an Origin field", {}],
  ["with an Origin field", { Origin: app }],
] as const)("C04: an OPTIONS that is no preflight is forwarded and charged: %s", async ([, fields]) => {
  const { send } = headgate(one);
  const init = { method: "OPTIONS", headers: { ...visitor.headers, ...fields } };
  const response = await send("/", init);
  expect(await response.json()).toMatchObject({ method: "OPTIONS" });
  expect(await statusOf(send("/", init))).toBe(429);
});
