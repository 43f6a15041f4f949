/** The log of denials in workerd: problem responses have an instance, and the admin API says why the request was denied. */
import { describe, expect, it, vi } from "vitest";
import { causeText } from "../../src/admin/denial-routes.ts";
import { from } from "../http/harness.ts";
import { type Admin, admin, fieldsOf } from "./admin.ts";

const address = "192.0.2.7";

/** Sends requests until one is denied, and returns its problem details. */
async function denied(gate: Admin, path = "/"): Promise<Record<string, unknown>> {
  for (let request = 0; request < 3; request++) {
    // oxlint-disable-next-line no-await-in-loop -- one request after the other
    const response = await gate.send(path, from(address));
    // oxlint-disable-next-line no-await-in-loop
    const text = await response.text();
    if (response.status >= 400) return JSON.parse(text) as Record<string, unknown>;
  }
  throw new Error("no request was denied");
}

/** Searches until the control plane has the denial: isolates report it with a later beat. */
async function found(gate: Admin, body: object) {
  return vi.waitFor(
    async () => {
      const answer = await gate.call("POST", "/denials/search", body);
      expect(answer).toMatchObject({ status: 200, body: { denial: { policy: gate.policy } } });
      return answer.body;
    },
    { timeout: 20_000, interval: 250 },
  );
}

const uri = /^urn:uuid:[\da-f-]{36}$/;

describe("the log of denials", () => {
  it("the instance of a 429 finds the denial, with its limit, its use and its key", { timeout: 30_000 }, async () => {
    const gate = admin({ limits: "1/hour" });
    const { instance } = await denied(gate);
    expect(instance).toMatch(uri);
    const { denial, keys, isOn } = await found(gate, { instance });
    expect(denial).toMatchObject({
      instance,
      policy: gate.policy,
      outcome: "denied",
      reason: "limit",
      limits: [{ name: gate.policy, used: 1, capacity: 1, windowMs: 3_600_000 }],
      cost: 1,
      count: 1,
    });
    expect(denial.cause).toMatch(/^1 of 1 per hour used; could retry after /);
    expect([keys, isOn]).toEqual([[], true]);
    const { body } = await gate.call("POST", "/keys/explain", { policy: gate.policy, key: address });
    expect(denial.id).toBe(body.id);
  });

  it("an address alone finds the denial under each policy whose key it fits", { timeout: 30_000 }, async () => {
    const gate = admin({ limits: "1/hour" });
    await denied(gate);
    const { denial, count, since, next, keys } = await found(gate, { key: address, at: new Date().toISOString() });
    expect(keys).toEqual([{ policy: gate.policy, id: denial.id }]);
    expect([count, since, next]).toEqual([1, denial.at, null]);
    expect((await found(gate, { id: denial.id?.slice(0, 8) })).keys).toEqual(keys);
    const page = await gate.call("GET", `/denials?policy=${gate.policy}&id=${denial.id}`);
    expect(page.body.denials).toEqual([denial]);
    expect(page.body).toMatchObject({ dropped: 0, next: null, isOn: true });
  });

  it("a 403 of a deny list has an instance, which finds the denial", { timeout: 30_000 }, async () => {
    const gate = admin({ deny: [address] });
    const { instance, status } = await denied(gate);
    expect(status).toBe(403);
    const { denial } = await found(gate, { instance });
    expect(denial).toMatchObject({ outcome: "blocked", reason: "deny", limits: [] });
    expect(denial.cause).toBe("on the deny list, or blocked by a rule");
  });

  it("a denied answer of /check has an instance, which finds the denial", { timeout: 30_000 }, async () => {
    const gate = admin({ limits: "1/hour" });
    await denied(gate);
    const check = await gate.check("POST", "/check?deny=429", { policy: gate.policy, key: address, cost: 1 });
    const { allowed, instance } = await check.json<{ allowed: boolean; instance: string }>();
    expect([check.status, allowed, instance]).toEqual([429, false, expect.stringMatching(uri)]);
    expect((await found(gate, { instance })).denial.reason).toBe("limit");
  });

  it("with DENIALS off, problem responses have no instance, and the answer of a denied check has none", async () => {
    const gate = admin({ limits: "1/hour" }, { DENIALS: "off" });
    expect(await denied(gate)).not.toHaveProperty("instance");
    const answer = await gate.check("POST", "/check", { policy: gate.policy, key: address });
    expect(await answer.json()).not.toHaveProperty("instance");
  });

  it("without a control plane, problem responses have no instance", async () => {
    const gate = admin({ limits: "1/hour" }, { ADMIN_TOKENS: "" });
    expect(await denied(gate)).not.toHaveProperty("instance");
  });

  it("repeated denials that the deny cache answers share an instance", async () => {
    const gate = admin({ limits: "1/hour" });
    const instances = new Set<unknown>();
    for (let request = 0; request < 10; request++) {
      // oxlint-disable-next-line no-await-in-loop -- one request after the other
      instances.add((await denied(gate))["instance"]);
    }
    // Two entries before the first beat and two after it.
    expect(instances.size).toBeLessThanOrEqual(4);
  });

  it.for([
    [{}, ["key"]],
    [{ key: "no address" }, ["key"]],
    [{ key: address, instance: `urn:uuid:${crypto.randomUUID()}` }, ["instance"]],
    [{ instance: "urn:uuid:1" }, ["instance"]],
    [{ key: address, at: "yesterday" }, ["at"]],
  ] as const)("the search %j is refused, and names %j", async ([body, names]) => {
    expect(fieldsOf(await admin().call("POST", "/denials/search", body))).toEqual(names);
  });

  it("a period that ends before it begins, and a cursor of another form, are refused", async () => {
    const gate = admin();
    const query = "from=2026-11-22T18:00:00Z&to=2026-11-22T17:00:00Z";
    expect(fieldsOf(await gate.call("GET", `/denials?${query}`))).toEqual(["from"]);
    expect(fieldsOf(await gate.call("GET", "/denials?cursor=newest"))).toEqual(["cursor"]);
    expect(fieldsOf(await gate.call("GET", "/denials?cursor=1-1&at=2026-11-22T18:00:00Z"))).toEqual(["at"]);
    expect((await gate.call("GET", "/denials?policy=unknown")).status).toBe(404);
    expect((await gate.call("POST", "/denials/search", { id: "short" })).status).toBe(404);
  });

  it("the cause of a denial by several limits has each of them, and the longest wait", () => {
    const limits = [
      { name: "api.10-per-1s", used: 10, capacity: 10, windowMs: 1_000 },
      { name: "api.100-per-1m", used: 100, capacity: 100, windowMs: 60_000 },
    ];
    const denial = {
      outcome: "denied",
      reason: "limit",
      limits,
      bannedForMs: 0,
      cost: 1,
      retryAfterMs: 23_000,
    } as const;
    expect(causeText(denial)).toBe(
      "2 limits denied: 10 of 10 per second and 100 of 100 per minute used; could retry after 23 s, the longest wait",
    );
  });

  it.for([
    [5_000, "banned for another 5 s after repeated denials"],
    [60_000, "banned for another 5 s after repeated denials; could retry after 1 min"],
  ] as const)(
    "a ban with a wait of %d ms states the wait only if it is longer than the ban",
    ([retryAfterMs, text]) => {
      const ban = { outcome: "banned", reason: "ban", limits: [], bannedForMs: 5_000, cost: 1, retryAfterMs } as const;
      expect(causeText(ban)).toBe(text);
    },
  );
});
