/** The rows of the list of denials: which entries of the log are one row, and which rows are shown. */
import { describe, expect, it } from "vitest";
import type { DenialView } from "../../../../src/admin/wire.ts";
import { extentText, joinedRows, listPageOf, shownRows } from "../../../../src/console/app/denied/rows.ts";

const startMs = Date.UTC(2026, 10, 22, 17);
const textOf = (second: number): string => new Date(startMs + second * 1_000).toISOString();
const limit = (name: string) => ({ name, used: 5, capacity: 5, windowMs: 60_000 });

let made = 0;
/** An entry whose denials are one second long. */
const entry = (second: number, changes: Partial<DenialView> = {}): DenialView => ({
  instance: `urn:uuid:${made++}`,
  policy: "api",
  id: "a",
  outcome: "denied",
  reason: "limit",
  limits: [limit("api")],
  retryAfterMs: 23_000,
  bannedForMs: 0,
  cost: 1,
  colo: "FRA",
  count: 1,
  at: textOf(second),
  lastAt: textOf(second + 1),
  cause: `cause at ${second}`,
  ...changes,
});

describe("entries of one client", () => {
  it("alternating entries of one key are one row with their sum, their time and the cause of the first", () => {
    const entries = [15, 10, 5, 0].map((second, index) => entry(second, { count: index % 2 === 0 ? 1 : 4 }));
    const [row, ...others] = joinedRows(entries, null);
    expect(others).toEqual([]);
    expect(row).toMatchObject({ count: 10, at: textOf(0), lastAt: textOf(16), isFound: false, colos: ["FRA"] });
    expect(row?.described.cause).toBe("cause at 0");
  });

  it("entries of other keys between them do not separate them", () => {
    const entries = [entry(15), entry(12, { id: "b" }), entry(10), entry(8, { id: "b", colo: "AMS" })];
    expect(joinedRows(entries, null).map(({ described, count }) => [described.id, count])).toEqual([
      ["a", 2],
      ["b", 2],
    ]);
  });

  it("entries of another policy, reason, limit or clock minute are other rows", () => {
    const others: Partial<DenialView>[] = [
      { policy: "login" },
      { reason: "ban" },
      { limits: [limit("api"), limit("b")] },
    ];
    for (const other of others) expect(joinedRows([entry(5), entry(0, other)], null)).toHaveLength(2);
    expect(joinedRows([entry(58), entry(0)], null)).toHaveLength(1);
    expect(joinedRows([entry(60), entry(58)], null)).toHaveLength(2);
  });

  it("a continuous run of 11 minutes has a row for each minute, and an entry that crosses minutes has its own", () => {
    const seconds = Array.from({ length: 132 }, (_, index) => 655 - index * 5);
    const rows = joinedRows(
      seconds.map((second) => entry(second)),
      null,
    );
    expect(rows.map(({ count }) => count)).toEqual(Array.from({ length: 11 }, () => 12));
    expect(rows.every(({ at, lastAt }) => at.slice(0, 16) === lastAt.slice(0, 16))).toBe(true);
    const crossing = entry(59, { lastAt: textOf(62) });
    expect(joinedRows([entry(65), crossing, entry(50)], null)).toHaveLength(3);
  });
});

describe("a page of the list", () => {
  const entries = [190, 185, 130, 125, 70, 65].map((second) => entry(second));

  it("leaves incomplete minutes to the older and the newer page, which begin at whole minutes", () => {
    const page = listPageOf({ denials: entries, next: "5-5", hasNewer: true }, null);
    expect(page.denials).toEqual(entries.slice(2, 4));
    expect(page.older).toBe(`${startMs + 120_000}-0`);
    expect(page.newerFrom).toBe(textOf(180));
  });

  it("keeps all entries when the log has no others, when they are of one minute, or when the found one would be left out", () => {
    expect(listPageOf({ denials: entries, next: null }, null)).toEqual({
      denials: entries,
      older: null,
      newerFrom: null,
    });
    const one = entries.slice(0, 2);
    expect(listPageOf({ denials: one, next: "5-5" }, null)).toMatchObject({ denials: one, older: "5-5" });
    const kept = listPageOf({ denials: entries, next: "5-5" }, entries[5] ?? null);
    expect(kept).toMatchObject({ denials: entries, older: "5-5" });
  });

  it("says how many denials it shows, and whether older or newer ones follow", () => {
    const rows = joinedRows([entry(130, { count: 500 }), entry(5, { count: 4 })], null);
    expect(extentText(rows, true, false)).toBe("The newest 504 denials; older ones follow.");
    expect(extentText(rows, false, false)).toBe("504 denials.");
    expect(extentText(rows, true, true)).toBe("504 denials; older and newer ones are not shown.");
  });
});

describe("the found denial", () => {
  it("its row is marked, and has its cause", () => {
    const entries = [entry(200), entry(110), entry(105), entry(100)];
    const rows = joinedRows(entries, entries[2] ?? null);
    expect(rows.map(({ isFound }) => isFound)).toEqual([false, true]);
    expect(rows[1]?.described.cause).toBe("cause at 105");
  });

  it("the list shows the rows on both sides of it, and else the newest ones", () => {
    const entries = Array.from({ length: 50 }, (_, index) => entry(100_000 - index * 100));
    const shown = (found: DenialView | null): readonly string[] =>
      shownRows(joinedRows(entries, found), 20).map(({ described }) => described.at);
    const times = entries.map(({ at }) => at);
    expect(shown(null)).toEqual(times.slice(0, 20));
    expect(shown(entries[25] ?? null)).toEqual(times.slice(15, 35));
    expect(shown(entries[48] ?? null)).toEqual(times.slice(30));
    expect(shown(entries[2] ?? null)).toEqual(times.slice(0, 20));
  });
});
