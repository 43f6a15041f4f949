/** The search of the view "Denied": what a text can name, and the words of the result. */
import { describe, expect, it } from "vitest";
import type { DenialView, FoundDenials } from "../../../../src/admin/wire.ts";
import { ApiProblem } from "../../../../src/console/app/api/client.ts";
import {
  choicesOf,
  isFar,
  nearText,
  listedAround,
  denialText,
  findDenial,
  denialsOfKeyText,
  completenessText,
  searchEndMs,
  selectionOf,
  soughtBy,
  spanText,
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
  until: null,
  near: null,
  denials: [],
  next: null,
  hasNewer: false,
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
    ["9oGwCzCP…", [{ id: "9oGwCzCP" }, { key: "9oGwCzCP…" }]],
    ["9oGwCzCP", [{ id: "9oGwCzCP" }, { key: "9oGwCzCP" }]],
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

  it("the times of several denials are the first and the last of them, with the date on another day", () => {
    const first = new Date(2026, 10, 22, 9, 41, 12);
    const span = { at: first.toISOString(), lastAt: new Date(2026, 10, 22, 9, 41, 40).toISOString() };
    const noonMs = new Date(2026, 10, 22, 12).getTime();
    expect(spanText(span, noonMs)).toBe("09:41:12 – 09:41:40");
    expect(spanText({ ...span, lastAt: span.at }, noonMs)).toBe("09:41:12");
    expect(spanText(span, noonMs + 86_400_000)).toBe("22 Nov 2026, 09:41:12 – 09:41:40");
  });

  it("the denials of the key are counted from the first to the last of them, and the text says if the log has more", () => {
    const found = {
      ...nothing,
      denial,
      count: 14,
      since: "2026-11-22T17:38:00.000Z",
      until: "2026-11-22T17:52:00.000Z",
      keys: [{ policy: "login", id }],
    };
    expect(denialsOfKeyText(found)).toMatch(/^14 denials of this key by login from \d\d:38:00 to \d\d:52:00\.$/);
    expect(denialsOfKeyText({ ...found, count: 1 })).toMatch(/^1 denial of this key by login at \d\d:38:00\.$/);
    expect(denialsOfKeyText({ ...found, denial: { ...denial, id: null } })).toBe("");
    expect(denialsOfKeyText({ ...found, next: "1-2", hasNewer: true })).toMatch(
      /52:00, and the log has earlier and later ones\.$/,
    );
  });

  it("the log says how many denials it lacks", () => {
    expect(completenessText(nothing)).toMatch(/^The log has every reported denial since .*2026/);
    expect(completenessText({ ...nothing, dropped: 7 })).toMatch(/^The log lacks 7 denials of the last 24 hours\. /);
  });
});

describe("the list after a search", () => {
  const other = { policy: "api", id: "o".repeat(43) };

  it("the list has the denials of the key that the search found", () => {
    expect(selectionOf({ denial, keys: [{ policy: "login", id }, other] })).toEqual({ id });
    expect(selectionOf({ denial, keys: [] })).toEqual({ instance: denial.instance, id });
  });

  it("the list has the denials of the policy when the request lacked a part of the key", () => {
    const missing: DenialView = { ...denial, id: null };
    expect(selectionOf({ denial: missing, keys: [] })).toEqual({ instance: denial.instance, policy: "login" });
  });

  it("after a search without a result, the list belongs to the sought key if there is only one", () => {
    const keys = [
      { policy: "login", id },
      { policy: "api", id },
    ];
    expect(selectionOf({ denial: null, keys })).toEqual({ id });
    expect(selectionOf({ denial: null, keys: [...keys, other] })).toBeNull();
    expect(selectionOf({ denial: null, keys: [] })).toBeNull();
  });
});

describe("the beginning of an id", () => {
  const keys = [
    { policy: "login", id: "SameStart-one" },
    { policy: "api", id: "SameStart-other" },
  ];

  it("several ids with the beginning are a choice, and the search ends", async () => {
    const bodies: object[] = [];
    const found = await findDenial("SameStart", {}, async (body) => {
      bodies.push(body);
      return { ...nothing, keys };
    });
    expect(choicesOf(found, "SameStart…")).toEqual(keys);
    expect(bodies).toEqual([{ id: "SameStart" }]);
  });

  it("keys that were sought by their parts are no choice", () => {
    expect(choicesOf({ denial: null, keys }, "203.0.113.7")).toEqual([]);
    expect(choicesOf({ denial, keys }, "SameStart")).toEqual([]);
  });
});

describe("the time around which the list has its rows", () => {
  const near = { at: "2026-11-22T17:49:00.000Z", awayMs: 60_000, dropped: 0, isComplete: true, text: "." };
  const keys = [{ policy: "login", id }];

  it("the list is around a denial that was found by a time or by its instance, and else has the newest rows", () => {
    expect(listedAround({ denial, near, keys }, near.at)).toBe(denial.at);
    expect(listedAround({ denial, near: null, keys: [] }, undefined)).toBe(denial.at);
    expect(listedAround({ denial, near: null, keys }, undefined)).toBeUndefined();
    expect(listedAround(null, near.at)).toBe(near.at);
  });

  it("an answer begins with the distance if the denial is more than a minute away from the asked time", () => {
    expect([60_000, 60_001].map((awayMs) => isFar({ near: { ...near, awayMs } }))).toEqual([false, true]);
  });
});

describe("the distance of the denial from the asked time", () => {
  it("its instants are in the time zone of the browser, without the date", () => {
    const text =
      "Denials from 2026-11-22T17:44:05.000Z to 2026-11-22T17:44:35.000Z, 132 in all, include the asked time.";
    const near = { at: denial.at, awayMs: 0, dropped: 0, isComplete: true, text };
    expect(nearText({ near })).toMatch(
      /^Denials from \d\d:44:05 to \d\d:44:35, 132 in all, include the asked time\. $/,
    );
    expect(nearText({ near: null })).toBe("");
  });
});

describe("the repetition of a search that has found nothing", () => {
  it("the search for the latest denial is repeated until isolates have reported it", () => {
    expect(searchEndMs(nowMs, undefined) - nowMs).toBe(35_000);
  });

  it("the search for a denial of ten minutes ago is not repeated", () => {
    expect(searchEndMs(nowMs, new Date(nowMs - 600_000).toISOString())).toBeLessThan(nowMs);
  });
});
