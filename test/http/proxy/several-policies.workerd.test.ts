import { describe, expect, it } from "vitest";
import { from, headgate, statusOf } from "../harness.ts";

const visitor = from("203.0.113.7");
const strategy = "fixed-window";

describe("policies that a request meets", () => {
  it("are those that match its path, method and host; others are not charged", async () => {
    const { send } = headgate({
      POLICIES: [
        { name: "writes", match: { methods: ["POST"], path: "/items/*" }, limits: "1/minute" },
        { name: "other-host", match: { host: "*.other.example" }, limits: "1/minute" },
      ],
    });
    const reading = await send("/items/1", visitor);
    expect(reading.headers.has("RateLimit")).toBe(false);
    const write = { ...visitor, method: "POST" };
    expect(await statusOf(send("/items/1", write))).toBe(200);
    expect(await statusOf(send("/%69tems//1/", write))).toBe(429);
    const there = await send("https://a.other.example/", visitor);
    expect(there.headers.get("RateLimit-Policy")).toBe('"other-host";q=1;w=60');
  });

  it("apply all: with one key they are decided together, and none spends when one denies", async () => {
    const { send, check } = headgate({
      POLICIES: [
        { name: "short", limits: "1/minute", strategy },
        { name: "long", limits: "10/hour", strategy },
      ],
    });
    const admitted = await send("/", visitor);
    expect(admitted.headers.get("RateLimit")).toBe('"short";r=0;t=60, "long";r=9;t=3600');
    const denied = await send("/", visitor);
    expect(denied.headers.get("RateLimit")).toBe('"short";r=0;t=60');
    expect(await denied.json()).toMatchObject({ "violated-policies": ["short"] });
    const long = await check("GET", "/check?policy=long&key=203.0.113.7");
    expect(await long.json()).toMatchObject({ limits: [{ remaining: 9 }] });
  });

  it("with different keys give back what they spent before one denied", async () => {
    const { send, check } = headgate({
      POLICIES: [
        { name: "each", key: "ip", limits: "5/minute", strategy },
        { name: "everyone", key: "global", limits: "1/minute", strategy },
      ],
    });
    expect(await statusOf(send("/", visitor))).toBe(200);
    const denied = await send("/", from("203.0.113.8"));
    expect(denied.headers.get("RateLimit-Policy")).toBe('"each";q=5;w=60, "everyone";q=1;w=60');
    expect(await denied.json()).toMatchObject({ "violated-policies": ["everyone"] });
    const each = await check("GET", "/check?policy=each&key=203.0.113.8");
    expect(await each.json()).toMatchObject({ limits: [{ remaining: 5, resetAfterMs: 0 }] });
  });
});

describe("a key", () => {
  it("of a header tells callers apart by it; those without it share one", async () => {
    const { send } = headgate({ LIMITS: "1/minute", KEY: "header:X-Api-Key" });
    const as = (key: string): Promise<number> =>
      statusOf(send("/", { headers: { "X-Api-Key": key } }));
    expect([await as("a"), await as("b"), await as("a")]).toEqual([200, 200, 429]);
    expect([await statusOf(send("/")), await statusOf(send("/other"))]).toEqual([200, 429]);
  });

  it("of several parts tells apart by all of them, and no value can pose as two", async () => {
    const { send } = headgate({ LIMITS: "1/minute", KEY: "header:a, header:b" });
    const as = (a: string, b: string): Promise<number> =>
      statusOf(send("/", { headers: { a, b } }));
    expect([await as("x", "y"), await as("x", "z"), await as("x", "y")]).toEqual([200, 200, 429]);
    expect([await as('x","y', "z"), await as("x", 'y","z')]).toEqual([200, 200]);
  });

  it("of the path takes the spellings of one path for one", async () => {
    const { send } = headgate({ LIMITS: "1/minute", KEY: "path" });
    expect(await statusOf(send("/a"))).toBe(200);
    const spellings = ["/a/", "https://headgate.example//a", "/%61", "/b/../a"];
    const statuses = await Promise.all(spellings.map((path) => statusOf(send(path))));
    expect(statuses).toEqual([429, 429, 429, 429]);
    expect(await statusOf(send("/A"))).toBe(200);
  });

  it("of the address cannot be chosen by forwarded headers", async () => {
    const { send } = headgate({ LIMITS: "1/minute" });
    const forged = (header: string, value: string): Promise<number> =>
      statusOf(send("/", { headers: { ...visitor.headers, [header]: value } }));
    expect(await statusOf(send("/", visitor))).toBe(200);
    expect(await forged("X-Forwarded-For", "198.51.100.1")).toBe(429);
    expect(await forged("Forwarded", "for=198.51.100.1")).toBe(429);
    expect(await forged("True-Client-IP", "198.51.100.1")).toBe(429);
    expect(await forged("Connection", "CF-Connecting-IP")).toBe(429);
  });
});
