/** Which fields of a gateway's question are fields of the request that it describes. */
import { SignJWT } from "jose";
import { describe, expect, it } from "vitest";
import { headgate, statusOf, token } from "../harness.ts";

type Sent = Record<string, string>;

const describing: Sent = {
  "X-Headgate-Token": token,
  "X-Forwarded-Method": "GET",
  "X-Forwarded-Uri": "/",
  "X-Forwarded-For": "203.0.113.7",
};

describe("a field of the gateway's own question", () => {
  it.for([
    ["X-Headgate-Token", token],
    ["Content-Length", "0"],
    ["Transfer-Encoding", "chunked"],
    ["Connection", "close"],
    ["Upgrade", "websocket"],
  ])("is none of the described request: %s", async ([name = "", value = ""]) => {
    const refusing = (header: string) => ({
      name: "p",
      match: { header: { [header]: true } },
      limits: "9/s",
      deny: ["203.0.113.7"],
    });
    const headers = { ...describing, [name]: value, "X-Own": "1" };
    const own = headgate({ POLICIES: [refusing(name)] });
    expect(await statusOf(own.send("/check/forward", { headers }))).toBe(204);
    const other = headgate({ POLICIES: [refusing("X-Own")] });
    expect(await statusOf(other.send("/check/forward", { headers }))).toBe(403);
  });
});

describe("the list of hops behind the gateway", () => {
  it("ends in the visitor also for policies that count proxies, although Cloudflare adds the gateway", async () => {
    const { send, check } = headgate({
      POLICIES: [{ name: "p", limits: "5/minute", trustedProxies: 1 }],
    });
    const headers = {
      ...describing,
      "X-Forwarded-For": "192.0.2.1, 203.0.113.7, 198.51.100.9",
      "CF-Connecting-IP": "198.51.100.9",
    };
    expect(await statusOf(send("/check/forward", { headers }))).toBe(204);
    const left = async (key: string): Promise<unknown> => {
      const look = await check("GET", `/check?key=${key}`);
      return (await look.json<{ limits: { remaining: number }[] }>()).limits[0]?.remaining;
    };
    expect([
      await left("203.0.113.7"),
      await left("198.51.100.9"),
      await left("192.0.2.1"),
    ]).toEqual([4, 5, 5]);
  });
});

describe("the claims of a described request", () => {
  const JWT_KEY = "a secret of the tests, thirty-two bytes or more";
  const policy = { name: "users", key: "jwt:sub", onMissingKey: "deny", limits: "5/hour" };

  it("are those that the gateway states, before those of the visitor's own token", async () => {
    const { send, check } = headgate({ JWT_KEY, POLICIES: [policy] });
    const bearer = await new SignJWT({ sub: "forwarded" })
      .setProtectedHeader({ alg: "HS256" })
      .setExpirationTime("10y")
      .sign(new TextEncoder().encode(JWT_KEY));
    const headers = { ...describing, Authorization: `Bearer ${bearer}` };
    const stated = new URLSearchParams({ attributes: JSON.stringify({ "jwt:sub": "stated" }) });
    expect(await statusOf(send(`/check/forward?${stated.toString()}`, { headers }))).toBe(204);
    expect(await statusOf(send("/check/forward", { headers }))).toBe(204);
    expect(await statusOf(send("/check/forward", { headers }))).toBe(204);
    const left = async (key: string): Promise<unknown> => {
      const look = await check("GET", `/check?key=${key}`);
      return (await look.json<{ limits: { remaining: number }[] }>()).limits[0]?.remaining;
    };
    expect([await left("stated"), await left("forwarded")]).toEqual([4, 3]);
  });
});
