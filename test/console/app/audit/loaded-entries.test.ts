/** Loading the audit log page by page, without gaps and in one order. */
import * as fc from "fast-check";
import { expect, it } from "vitest";
import { LoadedEntries, type ReadPage } from "../../../../src/console/app/audit/loaded-entries.ts";
import { forAll } from "../../../for-all.ts";
import { entry } from "../audit-entries.ts";

/** A growing log with pages of 3 entries. */
function growingLog(): { readonly add: (count: number) => void; readonly read: ReadPage } {
  let newest = 0;
  return {
    add: (count) => {
      newest += count;
    },
    read: async (cursor) => {
      const first = cursor === null ? newest : Number(cursor) - 1;
      const seqs = [first, first - 1, first - 2].filter((seq) => seq > 0);
      const last = seqs.at(-1) ?? 1;
      return { entries: seqs.map((seq) => entry({ seq })), next: last > 1 ? String(last) : null };
    },
  };
}

const seqsOf = ({ all }: LoadedEntries): number[] => (all.value ?? []).map(({ seq }) => seq);

const act = fc.record({
  kind: fc.constantFrom("newer" as const, "older" as const, "to" as const),
  added: fc.nat(8),
  to: fc.nat(30),
});

it(
  "the loaded entries are always the newest without gaps, in whatever order they load while the log grows",
  forAll([fc.array(act, { maxLength: 8 })], async (acts) => {
    const log = growingLog();
    log.add(4);
    const loaded = new LoadedEntries(log.read);
    await loaded.loadNewer();
    for (const { kind, added, to } of acts) {
      log.add(added);
      // oxlint-disable-next-line no-await-in-loop
      await { newer: loaded.loadNewer, older: loaded.loadOlder, to: () => loaded.loadTo(to) }[kind]();
      const seqs = seqsOf(loaded);
      expect(seqs).toEqual(seqs.map((_, index) => (seqs[0] ?? 0) - index));
      const most = kind === "to" ? Math.max(to, 1) : Infinity;
      expect(seqs.at(-1)).toBeLessThanOrEqual(most);
      expect(loaded.hasOlder.value).toBe((seqs.at(-1) ?? 0) > 1);
    }
  }),
);

it("concurrent reads load each entry once", async () => {
  const log = growingLog();
  log.add(9);
  const loaded = new LoadedEntries(log.read);
  await Promise.all([loaded.loadTo(1), loaded.loadNewer(), loaded.loadOlder()]);
  expect(seqsOf(loaded)).toEqual([9, 8, 7, 6, 5, 4, 3, 2, 1]);
});

it("a failed read keeps the loaded entries, and the next successful read clears the problem", async () => {
  const log = growingLog();
  log.add(2);
  let isBroken = false;
  const loaded = new LoadedEntries((cursor, limit) =>
    isBroken ? Promise.reject(new Error("broken")) : log.read(cursor, limit),
  );
  await loaded.loadNewer();
  isBroken = true;
  await expect(loaded.loadNewer()).rejects.toThrow("broken");
  expect(loaded.problem.value?.message).toBe("broken");
  expect(seqsOf(loaded)).toEqual([2, 1]);
  isBroken = false;
  await loaded.loadNewer();
  expect(loaded.problem.value).toBeNull();
});
