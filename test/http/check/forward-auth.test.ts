/** The request that a gateway describes: which header fields describe it, and which values are invalid. */
import { describe, expect, it } from "vitest";
import { forwardedRequest } from "../../../src/http/check/forward-auth.ts";
import { isFailure } from "../../../src/http/wire/problems.ts";

type Fields = Record<string, string>;

const traefik: Fields = {
  "X-Forwarded-Method": "GET",
  "X-Forwarded-Proto": "https",
  "X-Forwarded-Host": "app.example",
  "X-Forwarded-Uri": "/",
};
const nginx: Fields = { "X-Original-Method": "GET", "X-Original-URI": "/login" };

const described = (headers: Fields, credentialField = "X-Headgate-Token" as const) =>
  forwardedRequest(new Request("https://h.example/check/forward", { headers }), credentialField);

function invalidFields(headers: Fields): string[] {
  const result = described(headers);
  return isFailure(result) ? result.errors.map(({ field }) => field) : [];
}

describe("a field of the gateway's own call", () => {
  it.for([
    ["X-Headgate-Token", "token"],
    ["Content-Length", "0"],
    ["Transfer-Encoding", "chunked"],
    ["Connection", "close"],
    ["Upgrade", "websocket"],
  ])("%s does not belong to the described request", ([name = "", value = ""]) => {
    const request = described({ ...traefik, [name]: value, "X-Own": "1" });
    if (isFailure(request)) throw new Error("the description is valid");
    expect([request.headers.has(name), request.headers.has("X-Own")]).toEqual([false, true]);
  });

  it("Authorization belongs to the described request unless it contains the gateway's token", () => {
    const call = new Request("https://h.example/", {
      headers: { ...traefik, Authorization: "Bearer x" },
    });
    const fields = (["X-Headgate-Token", "Authorization"] as const).map((credentialField) => {
      const request = forwardedRequest(call, credentialField);
      return !isFailure(request) && request.headers.get("Authorization");
    });
    expect(fields).toEqual(["Bearer x", null]);
  });
});

describe("an invalid description", () => {
  it("errors name missing fields as X-Original-* when the request has one of these, and otherwise as X-Forwarded-*", () => {
    expect(invalidFields({})).toEqual(["X-Forwarded-Method", "X-Forwarded-Uri"]);
    expect(invalidFields({ "X-Original-URI": "/" })).toEqual(["X-Original-Method"]);
  });

  it.for([
    ["X-Forwarded-Method", "G ET"],
    ["X-Forwarded-Method", "GET, POST"],
    ["X-Forwarded-Method", "X".repeat(33)],
    ["X-Forwarded-Uri", "a"],
    ["X-Forwarded-Uri", "https://app.example/a"],
    ["X-Forwarded-Uri", ""],
    ["X-Forwarded-Proto", "gopher"],
    ["X-Forwarded-Proto", "https, http"],
    ["X-Forwarded-Host", "a b"],
    ["X-Forwarded-Host", "a/b"],
    ["X-Forwarded-Host", "user@a"],
    ["X-Forwarded-Host", "a, b"],
    ["X-Forwarded-Host", "a:99999"],
    ["X-Forwarded-Host", "1.2.3.4.5"],
    ["X-Forwarded-Host", "[1:2]"],
  ] as const)("%s: %s is an invalid field of a description", ([name, value]) => {
    expect(invalidFields({ ...traefik, [name]: value })).toEqual([name]);
  });

  it.for([
    ["X-Forwarded-Method", "X".repeat(32)],
    ["X-Forwarded-Uri", "/"],
    ["X-Forwarded-Proto", "HTTPS"],
    ["X-Forwarded-Proto", "ws"],
    ["X-Forwarded-Host", "a:65535"],
    ["X-Forwarded-Host", "A_b.example:0"],
    ["X-Forwarded-Host", "[2001:db8::1]:8443"],
  ] as const)("%s: %s is a valid field of a description", ([name, value]) => {
    expect(invalidFields({ ...traefik, [name]: value })).toEqual([]);
  });

  it("a request that Traefik's and nginx's fields describe differently is rejected, because a client may have sent either", () => {
    expect(invalidFields({ ...nginx, "X-Forwarded-Uri": "/harmless" })).toEqual(["X-Original-URI"]);
    expect(invalidFields({ ...traefik, "X-Original-Method": "OPTIONS" })).toEqual(["X-Original-Method"]);
  });
});
