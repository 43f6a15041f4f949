/** The row of a key, and how a state larger than 2 MB is divided into several rows. */
import { describe, expect, it } from "vitest";
import {
  type WrittenRow,
  headOf,
  mostRowBytes,
  parsedRow,
  rowVersion,
  snapshotAt,
  writtenRow,
} from "../../../src/limiter/object/key-row.ts";

/** The row for meters whose snapshots take `sizes` bytes each, including the quotes of the JSON text. */
function written(...sizes: readonly number[]): WrittenRow & { texts: string[] } {
  const texts: string[] = [];
  const meters = sizes.map((size, index): [string, string] => [`p${index}`, String(index).repeat(size - 2)]);
  const numberOf = (text: string): number => texts.push(text) - 1;
  return { ...writtenRow({ bornAtMs: 10, meters, rest: [] }, 20, { numberOf, count: () => texts.length }), texts };
}

describe("the row of a key", () => {
  it("the row of a key holds all meters up to the maximum size, and not a byte more", () => {
    const bytesBeside = written(2).row.length - 2;
    const full = written(mostRowBytes - bytesBeside);
    expect([full.row.length, full.apart, full.texts]).toEqual([mostRowBytes, [], []]);
    const over = written(mostRowBytes - bytesBeside + 1);
    expect([over.apart, over.texts.length, over.lost]).toEqual([["p0"], 1, []]);
  });

  it("a row of the maximum size leaves room for its name within 2 MB", () => {
    expect(mostRowBytes).toBeLessThanOrEqual(2_000_000 - 2_000);
  });

  it("the largest meters move to rows of their own, and no more of them than necessary", () => {
    const { row, apart, apartBytes, texts, lost } = written(500_000, 900_000, 100, 800_000);
    expect([apart, apartBytes, texts.map(({ length }) => length), lost]).toEqual([["p1"], 900_000, [900_000], []]);
    expect(row.length).toBeLessThanOrEqual(mostRowBytes);
    const parsed = parsedRow(row);
    const lengths = parsed?.meters.map(([policy, stored]) => {
      const snapshot = snapshotAt(stored, (number) => texts[number]);
      return [policy, String(snapshot).length];
    });
    expect(lengths).toEqual([
      ["p0", 499_998],
      ["p1", 899_998],
      ["p2", 98],
      ["p3", 799_998],
    ]);
  });

  it("a row fits after many of its meters have moved to rows of their own and only their row numbers remain", () => {
    const sizes = Array.from({ length: 2_000 }, (_, index) => 1_100 - (index % 7));
    const { row, apart } = written(...sizes);
    expect(apart.length).toBeGreaterThan(100);
    expect(row.length).toBeLessThanOrEqual(mostRowBytes);
  });

  it("a meter larger than the maximum size of a row is left out", () => {
    const { row, apart, lost, texts } = written(100, mostRowBytes + 1, 200);
    expect([apart, lost, texts]).toEqual([[], ["p1"], []]);
    expect(parsedRow(row)?.meters.map(([policy]) => policy)).toEqual(["p0", "p2"]);
  });

  it("the beginning of a key's row shows whether the key has further rows, so that a sweep deletes them too", () => {
    expect(headOf(written(100).row)).toEqual({ idleAtMs: 20, bornAtMs: 10, hasTexts: false });
    const large = written(1_500_000, 1_500_000).row;
    expect(headOf(large)).toEqual({ idleAtMs: 20, bornAtMs: 10, hasTexts: true });
    expect([headOf("[]"), headOf(7)]).toEqual([null, null]);
  });

  it.each(["[1,20,10,null,0,[]]", "[1,20,10,0]", "[1,20,10,[]]", "[2,20,10,0,[]]"])(
    "the row %s has no head, so that a sweep deletes it at once",
    (row) => {
      expect(headOf(row)).toBeNull();
    },
  );
});

describe("an unreadable row", () => {
  it.for<[string, unknown]>([
    ["is not a string", 7],
    ["is no JSON", "["],
    ["is no list", "{}"],
    ["is of another version", JSON.stringify([rowVersion + 1, 2, 1, 0, []])],
    ["has no instant of its first write", JSON.stringify([rowVersion, 2, "1", 0, []])],
    ["has no meters", JSON.stringify([rowVersion, 2, 1, 0])],
    ["has a meter without a snapshot", JSON.stringify([rowVersion, 2, 1, 0, [["p"]]])],
    ["has a meter of three parts", JSON.stringify([rowVersion, 2, 1, 0, [["p", {}, 1]]])],
    ["has a meter without a name", JSON.stringify([rowVersion, 2, 1, 0, [[1, {}]]])],
  ])("a row that %s is not read", ([, row]) => {
    expect(parsedRow(JSON.stringify([rowVersion, 2, 1, 0, [["p", {}]]]))).not.toBeNull();
    expect(parsedRow(row)).toBeNull();
  });

  it("a meter has no snapshot if its text is missing or is not JSON", () => {
    expect(snapshotAt(3, () => undefined)).toBeNull();
    expect(snapshotAt(3, () => "[")).toBeNull();
    expect(snapshotAt(3, (number) => `[${number}]`)).toEqual([3]);
    expect(snapshotAt([1], () => undefined)).toEqual([1]);
  });
});
