/** The validation of responses against the OpenAPI document, which the tests of `/check` use. */
import { describe, expect, it } from "vitest";
import { expectContract } from "./contract.ts";

describe("S11: the validation of live responses against the OpenAPI document", () => {
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
  const look: Parameters<typeof expectContract>[1] = {
    method: "GET",
    url: new URL("https://h.example/check?key=k"),
    body: null,
  };
  const errorsIn = async (body: unknown, init: ResponseInit = {}, request = look): Promise<string> => {
    const response = Response.json(body, { headers: noStore, ...init });
    return expectContract("/check", request, response).then(
      () => "no errors",
      ({ message }: Error) => message,
    );
  };

  it("S11: the validation finds no errors in a response as documented", async () => {
    expect(await errorsIn(answer)).toBe("no errors");
  });

  it.for<[string, unknown, ResponseInit, RegExp]>([
    ["a missing member", { ...answer, violated: undefined }, {}, /"violated"/],
    ["an undocumented member", { ...answer, colour: "red" }, {}, /colour/],
    ["a value of another type", { ...answer, cost: "1" }, {}, /#\/cost/],
    ["an invalid nested value", { ...answer, limits: [{}] }, {}, /#\/limits\/0/],
    ["an undocumented status", answer, { status: 201 }, /201:\nstatus/],
    ["a missing header field", answer, { headers: {} }, /Cache-Control: missing/],
    ["an undocumented header field", answer, { headers: { ...noStore, "X-New": "1" } }, /x-new/],
    ["another content type", answer, { headers: { ...noStore, "Content-Type": "text/html" } }, /html/],
    ["a Retry-After of 0", answer, { status: 429, headers: { ...noStore, "Retry-After": "0" } }, /Retry-After/],
  ])("S11: the validation reports %s", async ([, body, init, expected]) => {
    expect(await errorsIn(body, init)).toMatch(expected);
  });

  it("S11: the validation reports a request that the server accepts and the document does not allow", async () => {
    const url = new URL("https://h.example/check?key=k&colour=red&cost=1000001");
    expect(await errorsIn(answer, {}, { ...look, url })).toMatch(/query colour.*\n.*query cost/);
    const body = '{"key": 5}';
    const post = { method: "POST", url: new URL("https://h.example/check"), body };
    expect(await errorsIn(answer, {}, { ...look, ...post })).toMatch(/request body/);
  });

  it("S11: the validation reports an undocumented path and an incomplete Allow", async () => {
    const url = new URL("https://h.example/check/new");
    expect(await errorsIn(answer, {}, { ...look, url })).toMatch(/404 expected/);
    const put = { ...look, method: "PUT" };
    const headers = { ...noStore, Allow: "GET, HEAD" };
    expect(await errorsIn({}, { status: 405, headers }, put)).toMatch(/Allow: GET, HEAD, POST, DELETE/);
  });
});
