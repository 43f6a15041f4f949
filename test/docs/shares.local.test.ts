/** Sends the traffic that the how-to pages about shares and classes describe to the configurations of these pages. */
import { describe, expect, it } from "vitest";
import { type Answer, pageTraffic } from "./page-traffic.ts";

const { origin, serve, send, check } = pageTraffic();

/** The problem details of a denial. */
const problemOf = ({ status, text }: Answer): unknown => ({ status, ...JSON.parse(text) });

describe("share a quota fairly", () => {
  serve("docs/how-to/share-a-quota-fairly.md");

  const ask = async (org: string, cost: number, plan = "free"): Promise<unknown> => {
    const named = { policy: "tenant", key: ["all", org], attributes: { "jwt:plan": plan } };
    return (await check("POST", "", { ...named, cost })).json();
  };

  it("the shares recipe guarantees 250 and 750 of 1,000 units to active tenants with the weights 1 and 3", async () => {
    expect(await ask("small", 1)).toMatchObject({ allowed: true });
    expect(await ask("large", 1, "pro")).toMatchObject({ allowed: true });
    expect(await ask("small", 250)).toMatchObject({ allowed: false, reason: "share", violated: ["all"] });
    expect(await ask("large", 749, "pro")).toMatchObject({ allowed: true });
    const large = await origin().tokenOf({ sub: "dave", org: "large", plan: "pro" });
    expect(problemOf(await send("/api/orders", { token: large }))).toMatchObject({
      status: 429,
      detail: expect.stringContaining("Other keys are guaranteed the rest."),
      reason: "share",
      "violated-policies": ["all"],
    });
    expect(await ask("small", 248)).toMatchObject({ allowed: true });
    const small = await origin().tokenOf({ sub: "carol", org: "small" });
    const { status, headers } = await send("/api/orders", { token: small });
    expect([status, headers.get("RateLimit")]).toEqual([
      200,
      expect.stringMatching(/^"all";r=0;t=\d+, "tenant";r=550;/),
    ]);
  });
});

describe("let paying users go first", () => {
  serve("docs/how-to/let-paying-users-go-first.md");

  it("the classes recipe holds batch jobs at 50 % and free users at 70 %, and the rest is for paying users", async () => {
    const ask = async (cost: number, attributes = {}): Promise<unknown> =>
      (await check("POST", "", { policy: "backend", cost, attributes })).json();
    const batch = { "header:X-Batch": "1", "jwt:plan": "pro" };
    expect(await ask(500, batch)).toMatchObject({ allowed: true });
    expect(await ask(1, batch)).toMatchObject({ allowed: false, reason: "class" });
    expect(await ask(200, { "jwt:plan": "free" })).toMatchObject({ allowed: true });
    const [free, pro] = await Promise.all(["free", "pro"].map((plan) => origin().tokenOf({ sub: "ann", plan })));
    expect(problemOf(await send("/api/orders", { token: free ?? "" }))).toMatchObject({
      status: 429,
      detail: expect.stringContaining("Requests of this class may use 70 % of it."),
      reason: "class",
      "violated-policies": ["backend"],
    });
    const { status, headers } = await send("/api/orders", { token: pro ?? "" });
    expect([status, headers.get("RateLimit")]).toEqual([200, expect.stringMatching(/^"backend";r=299;/)]);
  });
});
