/** The rows of the list of denials: which entries of the log are one row, and which rows are shown. */
import { describe, expect, it } from "vitest";
import type { DenialView } from "../../../../src/admin/wire.ts";
import { joinedRows, shownRows } from "../../../../src/console/app/denied/rows.ts";

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

  it("entries of another policy, reason or limit, and entries after a pause of more than a minute, are other rows", () => {
    const others: Partial<DenialView>[] = [
      { policy: "login" },
      { reason: "ban" },
      { limits: [limit("api"), limit("b")] },
    ];
    for (const other of others) expect(joinedRows([entry(5), entry(0, other)], null)).toHaveLength(2);
    expect(joinedRows([entry(61), entry(0)], null)).toHaveLength(1);
    expect(joinedRows([entry(62), entry(0)], null)).toHaveLength(2);
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
