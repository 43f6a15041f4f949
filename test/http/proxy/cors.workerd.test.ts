/** What scripts in browsers are told of the limiter's own answers, and of the origin's. */
import { describe, expect, it } from "vitest";
import { from, headgate, statusOf } from "../harness.ts";

const app = "https://app.example.com";
const visitor = from("203.0.113.7");
const fromScript = (origin = app): { headers: Record<string, string> } => ({
  headers: { ...visitor.headers, Origin: origin },
});
const corsOf = ({ headers }: Response): Record<string, string | null> => ({
  origin: headers.get("Access-Control-Allow-Origin"),
  credentials: headers.get("Access-Control-Allow-Credentials"),
  exposed: headers.get("Access-Control-Expose-Headers"),
  vary: headers.get("Vary"),
});
const exposed = "RateLimit, RateLimit-Policy, Retry-After";
const nothing = { origin: null, credentials: null, exposed: null, vary: null };

/** The denial of a second request. */
async function denial(
  variables: Record<string, unknown>,
  init: { headers: Record<string, string> },
): Promise<Response> {
  const { send } = headgate({ LIMITS: "1/minute", ...variables });
  await statusOf(send("/", visitor));
  const response = await send("/", init);
  expect(response.status).toBe(429);
  return response;
}

describe("a denial", () => {
  it("is told to no script unless CORS_ORIGINS says so", async () => {
    expect(corsOf(await denial({}, fromScript()))).toEqual(nothing);
  });

  it("is told to those of any origin, without credentials", async () => {
    const expected = { origin: "*", credentials: null, exposed, vary: null };
    expect(corsOf(await denial({ CORS_ORIGINS: "*" }, fromScript("null")))).toEqual(expected);
    expect(corsOf(await denial({ CORS_ORIGINS: "*" }, visitor))).toEqual(nothing);
  });

  it("is told to those of a listed origin alone, and caches are told that it differs", async () => {
    const listed = { CORS_ORIGINS: [app, "http://localhost:3000"] };
    const expected = { origin: app, credentials: "true", exposed, vary: "Origin" };
    expect(corsOf(await denial(listed, fromScript()))).toEqual(expected);
    const others = ["https://evil.example", "null", `${app}.evil.example`, "http://localhost"];
    for (const other of others) {
      // oxlint-disable-next-line no-await-in-loop
      const response = await denial(listed, fromScript(other));
      expect(corsOf(response)).toEqual({ ...nothing, vary: "Origin" });
    }
    expect(corsOf(await denial(listed, visitor))).toEqual({ ...nothing, vary: "Origin" });
  });
});

it.for([
  ["/unreachable", 502],
  ["/listed", 403],
] as const)("a problem is told like a denial: %s", async ([path, status]) => {
  const listed = { name: "l", match: { path: "/listed" }, limits: "9/s", deny: ["203.0.113.7"] };
  const { send } = headgate({ CORS_ORIGINS: app, POLICIES: [listed] });
  const response = await send(path, fromScript());
  expect([response.status, corsOf(response)["origin"]]).toEqual([status, app]);
});

it("/check is for servers: it tells scripts nothing", async () => {
  const { send } = headgate({ CORS_ORIGINS: "*", LIMITS: "1/minute" });
  expect(corsOf(await send("/check?key=k", fromScript()))).toEqual(nothing);
});

describe("the origin's own answer", () => {
  const answer = (query: string, init = fromScript()): Promise<Response> =>
    headgate({ LIMITS: "9/minute", CORS_ORIGINS: "*" }).send(`/answer?${query}`, init);

  it.for([
    ["", null],
    ["Access-Control-Expose-Headers=X-Mine", "X-Mine"],
    ["Access-Control-Allow-Origin=*", "RateLimit, RateLimit-Policy"],
    [
      "Access-Control-Allow-Origin=*&Access-Control-Expose-Headers=X-Mine,%20ratelimit",
      "X-Mine, ratelimit, RateLimit-Policy",
    ],
    [
      "Access-Control-Allow-Origin=*&Access-Control-Expose-Headers=RateLimit,RateLimit-Policy",
      "RateLimit,RateLimit-Policy",
    ],
    ["Access-Control-Allow-Origin=*&Access-Control-Expose-Headers=*", "*"],
    [
      `Access-Control-Allow-Origin=${app}&Access-Control-Allow-Credentials=true&Access-Control-Expose-Headers=*`,
      "*, RateLimit, RateLimit-Policy",
    ],
  ] as const)("keeps its list of readable fields, and has ours added: %s", async ([query, all]) => {
    const response = await answer(query);
    expect(corsOf(response)["exposed"]).toBe(all);
    expect(corsOf(response)["origin"]).toBe(
      new URLSearchParams(query).get("Access-Control-Allow-Origin"),
    );
  });

  it("of a Retry-After of its own is readable too", async () => {
    const response = await answer("status=503&Retry-After=5&Access-Control-Allow-Origin=*");
    expect(corsOf(response)["exposed"]).toBe("RateLimit, RateLimit-Policy, Retry-After");
  });

  it("keeps what it varies by", async () => {
    const { send } = headgate({ LIMITS: "9/minute", CORS_ORIGINS: [app] });
    const response = await send("/answer?Vary=Accept", fromScript());
    expect(corsOf(response)["vary"]).toBe("Accept");
  });
});
