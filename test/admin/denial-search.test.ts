/** `POST /denials/search` on the stored log: it finds the denial nearest to an instant, and says what the log lacks. */
import { Hono } from "hono";
import { beforeEach, describe, expect, it } from "vitest";
import { answerRefusal, type AdminContext, type Authenticated } from "../../src/admin/context.ts";
import { listDenials, searchDenials } from "../../src/admin/denial-routes.ts";
import type { DenialPage, FoundDenials } from "../../src/admin/wire.ts";
import type { DenialEntry, DenialsQuery } from "../../src/control/denial-calls.ts";
import { StatisticsStore } from "../../src/control/object/statistics.ts";
import { MemorySql } from "../fakes/memory-sql.ts";
import { batch, beat, loggedDenial } from "../control/object/batches.ts";

const nowMs = Date.UTC(2026, 10, 22, 18);
const minuteMs = 60_000;
const startMs = nowMs - 15 * minuteMs;
const textOf = (atMs: number): string => new Date(atMs).toISOString();
const agoText = (minutes: number): string => textOf(nowMs - minutes * minuteMs);

const keyA = `SameStart${"a".repeat(34)}`;
const keyB = `SameStart${"b".repeat(34)}`;

let store: StatisticsStore;
let seq = 0;
/** Whether the object is of a version that knows neither `nearMs` nor `keyPrefix`. */
let isOld = false;
beforeEach(() => {
  store = new StatisticsStore(new MemorySql(), startMs, { mostDenials: 10_000 });
  isOld = false;
});

/** Logs an entry of one denial. */
function log(atMs: number, changes: Partial<DenialEntry> = {}, lost: Readonly<Record<string, number>> = {}): void {
  const suffix = (++seq).toString(16).padStart(12, "0");
  const entry = loggedDenial(`00000000-0000-8000-8000-${suffix}`, { key: keyA, ...changes });
  store.record(beat([{ ...batch(seq, 1), denials: { entries: [entry], lost } }]), atMs);
}

const app = new Hono<Authenticated>();
const stub = {
  denials: ({ nearMs, keyPrefix, ...query }: DenialsQuery) => {
    if (!isOld) return store.denials({ ...query, nearMs, keyPrefix } as DenialsQuery, nowMs);
    const { near: _near, hasNewer: _hasNewer, keys: _keys, ...reply } = store.denials(query, nowMs);
    return reply;
  },
};
const context = {
  apiPath: "/api",
  policies: [{ name: "api" }, { name: "login" }],
  control: { watch: () => undefined },
  controlPlane: { call: async (send: (object: typeof stub) => unknown) => send(stub) },
} as unknown as AdminContext;
app.post("/denials/search", (c) => searchDenials(context, c));
app.get("/denials", (c) => listDenials(context, c));
app.onError(answerRefusal);

async function search(body: object): Promise<FoundDenials> {
  const response = await app.request("/denials/search", {
    method: "POST",
    body: JSON.stringify(body),
    headers: { "content-type": "application/json" },
  });
  expect(response.status).toBe(200);
  return response.json();
}

const list = async (query: Record<string, string>): Promise<DenialPage> =>
  (await app.request(`/denials?${new URLSearchParams(query).toString()}`)).json();

/** Logs 2,000 denials of one key, evenly over the last 15 minutes. */
function logMany(): void {
  for (let index = 0; index < 2_000; index++) log(startMs + index * 450);
}

describe("a key with 2,000 denials in the last 15 minutes", () => {
  it("a search for 10 minutes ago finds the denial of that instant, and denials before and after it", async () => {
    logMany();
    const at = agoText(10);
    const { denial, near, denials, count, since, until, next, hasNewer } = await search({ id: keyA, at });
    expect(Math.abs(Date.parse(denial?.at ?? "") - Date.parse(at))).toBeLessThan(450);
    expect(near).toMatchObject({ at, dropped: 0, isComplete: true });
    expect(near?.awayMs).toBeLessThan(450);
    const times = denials.map((each) => each.at);
    expect(times).toEqual(times.toSorted().toReversed());
    expect(times.filter((each) => each > at)).toHaveLength(100);
    expect([count, since, until]).toEqual([200, times.at(-1), times[0]]);
    expect([typeof next, hasNewer]).toEqual(["string", true]);
  });

  it("the list around 10 minutes ago has the found denial, and its pages lead to all older denials", async () => {
    logMany();
    const at = agoText(10);
    const { denial } = await search({ id: keyA, at });
    let page = await list({ id: keyA, at, limit: "200" });
    expect(page.denials.map(({ instance }) => instance)).toContain(denial?.instance);
    expect(page.hasNewer).toBe(true);
    let older = page.denials.filter((each) => each.at <= at).length;
    while (page.next !== null) {
      // oxlint-disable-next-line no-await-in-loop -- each page leads to the next one
      page = await list({ id: keyA, cursor: page.next, limit: "200" });
      older += page.denials.length;
    }
    expect(older).toBe(Math.floor((5 * minuteMs) / 450) + 1);
  });

  it("a search for a time before the first denial finds the first one, and says how far it is", async () => {
    logMany();
    const at = agoText(20);
    const { denial, near } = await search({ id: keyA, at });
    expect(denial?.at).toBe(textOf(startMs));
    expect(near).toEqual({
      at,
      awayMs: 5 * minuteMs,
      dropped: 0,
      isComplete: false,
      text:
        "The nearest denial is 5 min after the asked time. " +
        "The log does not reach back to that time, so a nearer one may be missing.",
    });
  });
});

describe("the answer of a search with an instant", () => {
  it("counts the dropped denials only if they are of the time between the instant and the found denial", async () => {
    log(startMs);
    log(startMs + 8 * minuteMs, { key: keyB }, { api: 7 });
    log(startMs + 14 * minuteMs);
    expect((await search({ id: keyA, at: textOf(startMs + minuteMs) })).near).toMatchObject({
      awayMs: minuteMs,
      dropped: 0,
      isComplete: true,
    });
    expect((await search({ id: keyA, at: textOf(startMs + 9 * minuteMs) })).near).toMatchObject({
      awayMs: 5 * minuteMs,
      dropped: 0,
    });
    expect((await search({ id: keyA, at: textOf(startMs + 7.5 * minuteMs) })).near).toMatchObject({
      dropped: 7,
      isComplete: false,
      text: expect.stringMatching(/ The log lacks 7 denials of that time, so a nearer one may be missing\.$/) as string,
    });
  });

  it("an instant within the denials of one entry is no distance away from it", async () => {
    log(startMs + 5 * minuteMs, { agoMs: 20_000, count: 9 });
    const at = textOf(startMs + 5 * minuteMs - 10_000);
    expect((await search({ id: keyA, at })).near).toMatchObject({
      awayMs: 0,
      isComplete: true,
      text: `Denials from ${textOf(startMs + 5 * minuteMs - 20_000)} to ${textOf(startMs + 5 * minuteMs)}, 9 in all, include the asked time.`,
    });
  });

  it("only an entry with a single instant says that it was denied at the asked time, and others say how far they are", async () => {
    log(startMs + 5 * minuteMs);
    const textAt = async (atMs: number) => (await search({ id: keyA, at: textOf(atMs) })).near?.text;
    expect(await textAt(startMs + 5 * minuteMs)).toBe("It was denied at the asked time.");
    expect(await textAt(startMs + 5 * minuteMs + 13_000)).toBe("The nearest denial is 13 s before the asked time.");
  });

  it("an object of the previous version gives the newest denials, and the answer claims nothing about the instant", async () => {
    isOld = true;
    log(startMs);
    const { denial, near } = await search({ id: keyA, at: agoText(15) });
    expect(denial?.at).toBe(textOf(startMs));
    expect(near).toMatchObject({ awayMs: 0, isComplete: false });
  });

  it("a search without an instant has no distance", async () => {
    log(startMs);
    expect(await search({ id: keyA })).toMatchObject({ near: null, hasNewer: false, count: 1 });
  });
});

describe("the beginning of a key's id", () => {
  it("finds the denial of the only key whose id begins with it, also in written rows", async () => {
    log(startMs, { key: keyB });
    logMany();
    const { denial, keys } = await search({ id: keyB.slice(0, 10) });
    expect(denial?.id).toBe(keyB);
    expect(keys).toEqual([{ policy: "api", id: keyB }]);
  });

  it("may be that of the key within others, after their ids", async () => {
    const child = `${keyA}.${"Child".padEnd(43, "c")}`;
    log(startMs, { key: child });
    expect((await search({ id: "Childccc" })).denial?.id).toBe(child);
    logMany();
    expect((await search({ id: "Childccc" })).denial?.id).toBe(child);
  });

  it("that several ids share finds no denial, and lists the keys to choose from", async () => {
    logMany();
    log(startMs + 15 * minuteMs, { key: keyB, policy: "login" });
    const { denial, denials, keys } = await search({ id: "SameStart" });
    expect([denial, denials]).toEqual([null, []]);
    expect(keys).toEqual(
      expect.arrayContaining([
        { policy: "api", id: keyA },
        { policy: "login", id: keyB },
      ]),
    );
    expect((await search({ id: "SameStart", policy: "login" })).denial?.id).toBe(keyB);
  });

  it("that no id has finds nothing, also from an object of the previous version", async () => {
    log(startMs);
    expect(await search({ id: "NoSuchId" })).toMatchObject({ denial: null, keys: [] });
    isOld = true;
    expect(await search({ id: "SameStart" })).toMatchObject({ denial: null, denials: [], keys: [] });
  });
});
