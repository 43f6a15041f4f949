/** Fields that mark responses of Headgate: `Proxy-Status`, and the CORS fields that let scripts read the response. */
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

describe("CORS fields of a denial", () => {
  it("a denial has no CORS fields without CORS_ORIGINS", async () => {
    expect(corsOf(await denial({}, fromScript()))).toEqual(nothing);
  });

  it("with CORS_ORIGINS = * scripts of every origin may read a denial, without credentials", async () => {
    const expected = { origin: "*", credentials: null, exposed, vary: null };
    expect(corsOf(await denial({ CORS_ORIGINS: "*" }, fromScript("null")))).toEqual(expected);
    expect(corsOf(await denial({ CORS_ORIGINS: "*" }, visitor))).toEqual(nothing);
  });

  it("only scripts of a listed origin may read a denial, and Vary names Origin", async () => {
    const twoOrigins = { CORS_ORIGINS: [app, "http://localhost:3000"] };
    const expected = { origin: app, credentials: "true", exposed, vary: "Origin" };
    expect(corsOf(await denial(twoOrigins, fromScript()))).toEqual(expected);
    const others = ["https://evil.example", "null", `${app}.evil.example`, "http://localhost"];
    for (const other of others) {
      // oxlint-disable-next-line no-await-in-loop
      const response = await denial(twoOrigins, fromScript(other));
      expect(corsOf(response)).toEqual({ ...nothing, vary: "Origin" });
    }
    expect(corsOf(await denial(twoOrigins, visitor))).toEqual({ ...nothing, vary: "Origin" });
  });
});

it.for([
  ["/unreachable", 502],
  ["/blocked", 403],
] as const)("problems have the CORS fields of a denial: %s", async ([path, status]) => {
  const blocking = { name: "l", match: { path: "/blocked" }, limits: "9/s", deny: ["203.0.113.7"] };
  const { send } = headgate({ CORS_ORIGINS: app, POLICIES: [blocking] });
  const response = await send(path, fromScript());
  expect([response.status, corsOf(response)["origin"]]).toEqual([status, app]);
});

it("responses of /check have no CORS fields", async () => {
  const { send } = headgate({ CORS_ORIGINS: "*", LIMITS: "1/minute" });
  expect(corsOf(await send("/check?key=k", fromScript()))).toEqual(nothing);
});

describe("CORS fields of the origin's response", () => {
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
  ] as const)(
    "rate limit fields are added to the origin's Access-Control-Expose-Headers: %s",
    async ([query, expected]) => {
      const response = await answer(query);
      expect(corsOf(response)["exposed"]).toBe(expected);
      expect(corsOf(response)["origin"]).toBe(new URLSearchParams(query).get("Access-Control-Allow-Origin"));
    },
  );

  it("scripts may read Retry-After of the origin, too", async () => {
    const response = await answer("status=503&Retry-After=5&Access-Control-Allow-Origin=*");
    expect(corsOf(response)["exposed"]).toBe("RateLimit, RateLimit-Policy, Retry-After");
  });

  it("the origin's Vary is unchanged", async () => {
    const { send } = headgate({ LIMITS: "9/minute", CORS_ORIGINS: [app] });
    const response = await send("/answer?Vary=Accept", fromScript());
    expect(corsOf(response)["vary"]).toBe("Accept");
  });
});

const unlimited = { LIMITS: "1000/minute" };

describe("Proxy-Status", () => {
  it.for([
    ["a denial", { LIMITS: "1/minute" }, "/", 429, "http_request_error"],
    ["a visitor on a blocklist", {}, "/blocked", 403, "http_request_denied"],
    ["an origin that is down", {}, "/unreachable", 502, "destination_unavailable"],
    ["an origin that is not set", { ORIGIN: "" }, "/", 404, "proxy_configuration_error"],
    ["a loop", { ORIGIN: "https://headgate.example" }, "/", 508, "proxy_loop_detected"],
  ] as const)("Proxy-Status marks the response to %s", async ([, variables, path, status, error]) => {
    const blocking = {
      name: "l",
      match: { path: "/blocked" },
      limits: "9/s",
      deny: ["203.0.113.7"],
    };
    const { LIMITS: limits = "1000/minute", ...others }: Record<string, string> = variables;
    const { send } = headgate({ POLICIES: [{ name: "default", limits }, blocking], ...others });
    if (status === 429) await statusOf(send("/", visitor));
    const response = await send(path, visitor);
    expect(response.status).toBe(status);
    expect(response.headers.get("Proxy-Status")).toMatch(new RegExp(`^headgate-[\\w-]{8};error=${error}$`));
  });

  it("the problem of a request that held a slot has Proxy-Status and CORS fields", async () => {
    const limits = { limit: 5, window: "1m", strategy: "concurrency" };
    const { send } = headgate({ LIMITS: limits, CORS_ORIGINS: "*" });
    const headers = { ...visitor.headers, Origin: "https://app.example" };
    const response = await send("/unreachable", { headers });
    expect(response.status).toBe(502);
    expect(response.headers.get("Proxy-Status")).toMatch(/;error=destination_unavailable$/);
    expect(response.headers.get("Access-Control-Allow-Origin")).toBe("*");
  });

  it("responses of the origin and of /check have no Proxy-Status", async () => {
    const { send, check } = headgate(unlimited);
    const answers = [await send("/refusing", visitor), await check("GET", "/check?x=1")];
    expect(answers.map(({ status }) => status)).toEqual([429, 422]);
    for (const { headers } of answers) expect(headers.has("Proxy-Status")).toBe(false);
  });
});
