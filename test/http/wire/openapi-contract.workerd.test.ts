import { describe, expect, it } from "vitest";
import document from "../../../src/http/wire/openapi.json" with { type: "json" };
import { expectContract } from "../contract.ts";
import { headgate, statusOf } from "../harness.ts";

describe("GET /check/openapi.json", () => {
  it("answers the document to anyone, with the path where it is served", async () => {
    const response = await headgate({ LIMITS: "5/minute" }).send("/check/openapi.json");
    expect([response.status, await response.json()]).toEqual([200, document]);
    const moved = headgate({ LIMITS: "5/minute", CHECK_PATH: "/_limits/v1" });
    const served = await moved.send("/_limits/v1/openapi.json");
    expect(await served.json<typeof document>()).toEqual({
      ...document,
      servers: [{ ...document.servers[0], url: "/_limits/v1" }],
    });
  });

  it("answers HEAD without it, and no other method", async () => {
    const { send } = headgate({ LIMITS: "5/minute" });
    const head = await send("/check/openapi.json", { method: "HEAD" });
    expect([head.status, await head.text()]).toEqual([200, ""]);
    expect(head.headers.get("Content-Type")).toBe("application/json");
    const posted = await send("/check/openapi.json", { method: "POST", body: "{}" });
    expect([posted.status, posted.headers.get("Allow")]).toEqual([405, "GET, HEAD"]);
  });

  it("names the path of each operation", async () => {
    const { check } = headgate({ LIMITS: "5/minute" });
    const statuses = Object.keys(document.paths).map((path) =>
      statusOf(check("PATCH", `/check${path}`)),
    );
    expect(new Set(await Promise.all(statuses))).toEqual(new Set([405]));
  });
});

describe("the examples of the document", () => {
  const examplesOf = (operation: object): { readonly value: unknown }[] => {
    const { requestBody } = operation as { requestBody?: { content: Record<string, object> } };
    const { examples = {} } = (requestBody?.content["application/json"] ?? {}) as {
      examples?: Record<string, { value: unknown }>;
    };
    return Object.values(examples);
  };

  it("are accepted when they are sent", async () => {
    const { check } = headgate({
      POLICIES: [{ name: "login", key: "ip", limits: { limit: 5, window: "1m" } }],
    });
    const sent = Object.entries(document.paths).flatMap(([path, methods]) =>
      "post" in methods ? examplesOf(methods.post).map(({ value }) => [path, value] as const) : [],
    );
    const answers = sent.map(async ([path, value]) =>
      statusOf(check("POST", `/check${path === "/" ? "" : path}`, value)),
    );
    expect(await Promise.all(answers)).toEqual(sent.map(() => 200));
    expect(sent.length).toBeGreaterThan(6);
  });
});

describe("S11: what the tests of /check compare each answer with", () => {
  const answer = {
    allowed: true,
    cost: 1,
    delayMs: 0,
    retryAfterMs: 0,
    bannedForMs: 0,
    limits: [
      {
        name: "default",
        strategy: "fixed-window",
        limit: 5,
        capacity: 5,
        windowMs: 1_000,
        allowed: true,
        remaining: 4,
        retryAfterMs: 0,
        replenishAfterMs: 1_000,
        resetAfterMs: 1_000,
      },
    ],
    policy: "default",
    reason: "limit",
    violated: [],
    headers: { RateLimit: '"default";r=4;t=1' },
  };
  const noStore = { "Cache-Control": "no-store" };
  const looked: Parameters<typeof expectContract>[1] = {
    method: "GET",
    url: new URL("https://h.example/check?key=k"),
    body: null,
  };
  const found = async (body: unknown, init: ResponseInit = {}, asked = looked): Promise<string> => {
    const response = Response.json(body, { headers: noStore, ...init });
    return expectContract("/check", asked, response).then(
      () => "nothing",
      ({ message }: Error) => message,
    );
  };

  it("finds nothing where all is as the document says", async () => {
    expect(await found(answer)).toBe("nothing");
  });

  it.for<[string, unknown, ResponseInit, RegExp]>([
    ["a member that is missing", { ...answer, violated: undefined }, {}, /"violated"/],
    ["one that is not in it", { ...answer, colour: "red" }, {}, /colour/],
    ["a value of another kind", { ...answer, cost: "1" }, {}, /#\/cost/],
    ["one deep inside", { ...answer, limits: [{}] }, {}, /#\/limits\/0/],
    ["a status that is not in it", answer, { status: 201 }, /201:\nstatus/],
    ["a field that is missing", answer, { headers: {} }, /Cache-Control: missing/],
    ["one that is not in it", answer, { headers: { ...noStore, "X-New": "1" } }, /x-new/],
    ["another type", answer, { headers: { ...noStore, "Content-Type": "text/html" } }, /html/],
    [
      "a wait of no time",
      answer,
      { status: 429, headers: { ...noStore, "Retry-After": "0" } },
      /Retry-After/,
    ],
  ])("finds %s", async ([, body, init, expected]) => {
    expect(await found(body, init)).toMatch(expected);
  });

  it("finds what was accepted although the document would not have", async () => {
    const url = new URL("https://h.example/check?key=k&colour=red&cost=1000001");
    expect(await found(answer, {}, { ...looked, url })).toMatch(/query colour.*\n.*query cost/);
    const body = '{"key": 5}';
    const posted = { method: "POST", url: new URL("https://h.example/check"), body };
    expect(await found(answer, {}, { ...looked, ...posted })).toMatch(/request body/);
  });

  it("finds a path that is not in it, and an Allow that leaves out a method", async () => {
    const url = new URL("https://h.example/check/new");
    expect(await found(answer, {}, { ...looked, url })).toMatch(/404 expected/);
    const put = { ...looked, method: "PUT" };
    const headers = { ...noStore, Allow: "GET, HEAD" };
    expect(await found({}, { status: 405, headers }, put)).toMatch(
      /Allow: GET, HEAD, POST, DELETE/,
    );
  });
});
