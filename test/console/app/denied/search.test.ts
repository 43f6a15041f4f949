/** The search of the view "Denied": what a text can name, and the words of the result. */
import { describe, expect, it } from "vitest";
import type { DenialView, FoundDenials } from "../../../../src/admin/wire.ts";
import { ApiProblem } from "../../../../src/console/app/api/client.ts";
import {
  denialText,
  findDenial,
  denialsOfKeyText,
  completenessText,
  soughtBy,
} from "../../../../src/console/app/denied/search.ts";

const uuid = "5b0f9c1e-7a34-8f21-9d08-3c6e2b1a7f40";
const id = "k".repeat(43);
const nowMs = Date.UTC(2026, 10, 22, 18);

const denial: DenialView = {
  instance: `urn:uuid:${uuid}`,
  policy: "login",
  id,
  outcome: "denied",
  reason: "limit",
  limits: [],
  retryAfterMs: 23_000,
  bannedForMs: 0,
  cost: 1,
  colo: "FRA",
  count: 1,
  at: "2026-11-22T17:50:00.000Z",
  lastAt: "2026-11-22T17:50:00.000Z",
  cause: "5 of 5 per minute used; could retry after 23 s",
};

const nothing: FoundDenials = {
  denial: null,
  count: 0,
  since: null,
  denials: [],
  keys: [],
  dropped: 0,
  completeSince: "2026-11-21T18:00:00.000Z",
  isOn: true,
};

describe("a text that an operator searches for", () => {
  it.each([
    ["203.0.113.7", [{ key: "203.0.113.7" }]],
    [`urn:uuid:${uuid}`, [{ instance: `urn:uuid:${uuid}` }]],
    [uuid, [{ instance: uuid }, { key: uuid }]],
    [id, [{ id }, { key: id }]],
  ])("the text %s names %j", (text, sought) => {
    expect(soughtBy(text)).toEqual(sought);
  });

  it("a UUID that is no known instance is sought as an API key", async () => {
    const bodies: object[] = [];
    const found = await findDenial(uuid, { policy: "login" }, async (body) => {
      bodies.push(body);
      return "key" in body ? { ...nothing, denial } : nothing;
    });
    expect(found.denial).toBe(denial);
    expect(bodies).toEqual([
      { instance: uuid, policy: "login" },
      { key: uuid, policy: "login" },
    ]);
  });

  it("a search with an instant finds the denial nearest to it", async () => {
    const at = "2026-11-22T17:50:00.000Z";
    const bodies: object[] = [];
    await findDenial("203.0.113.7", { at }, (body) => {
      bodies.push(body);
      return Promise.resolve(nothing);
    });
    expect(bodies).toEqual([{ key: "203.0.113.7", at }]);
  });

  it("a UUID that fits the key of no policy has the result of the search for the instance", async () => {
    const refused = new ApiProblem({ status: 422, detail: "key: expected a key" });
    const found = await findDenial(uuid, {}, (body) =>
      "key" in body ? Promise.reject(refused) : Promise.resolve(nothing),
    );
    expect(found).toBe(nothing);
    await expect(findDenial("no address", {}, () => Promise.reject(refused))).rejects.toBe(refused);
  });
});

describe("the words for a denial", () => {
  it("the sentence says when, how long ago, and why", () => {
    const text = denialText(denial, nowMs);
    expect(text).toMatch(/^at \d\d:50:00 \(10 min ago\): 5 of 5 per minute used; could retry after 23 s\.$/);
  });

  it("an entry for several denials says how many they are, and until when", () => {
    const text = denialText({ ...denial, count: 3, lastAt: "2026-11-22T17:51:00.000Z" }, nowMs);
    expect(text).toMatch(/ 3 denials like this one until \d\d:51:00\.$/);
  });

  it("the denials of the key are counted since the first of them", () => {
    const found = { denial, count: 14, since: "2026-11-22T17:38:00.000Z", denials: [denial] };
    expect(denialsOfKeyText(found)).toMatch(/^14 denials of this key since \d\d:38:00\.$/);
    expect(denialsOfKeyText({ ...found, denial: { ...denial, id: null } })).toBe("");
    const all = Array.from({ length: 200 }, () => denial);
    expect(denialsOfKeyText({ ...found, denials: all })).toMatch(/since \d\d:38:00, and earlier ones\.$/);
  });

  it("the log says how many denials it lacks", () => {
    expect(completenessText(nothing)).toMatch(/^The log has every denial since /);
    expect(completenessText({ ...nothing, dropped: 7 })).toMatch(/^The log lacks 7 denials of the last 24 hours\. /);
  });
});
