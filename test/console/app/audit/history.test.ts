/** The index of audit entries, compared with a search through all entries, and how much work a long log causes. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { AuditedRule, AuditEntryView } from "../../../../src/admin/wire.ts";
import { isSameRule } from "../../../../src/console/app/api/rules.ts";
import {
  entryWindow,
  firstAround,
  mostShownEntries,
  newerFirst,
  olderFirst,
} from "../../../../src/console/app/audit/shown-entries.ts";
import { History } from "../../../../src/console/app/audit/history.ts";
import { LoadedEntries, mostReached } from "../../../../src/console/app/audit/loaded-entries.ts";
import { forAll } from "../../../for-all.ts";
import { entry, rule, startMs } from "../audit-entries.ts";
import { generatedPage } from "../long-audit.ts";

const isSame = (one: AuditedRule | null, other: AuditedRule | null): boolean =>
  one === null || other === null ? one === other : isSameRule(one, other);

function searchedUndone(own: AuditEntryView, entries: readonly AuditEntryView[]): AuditEntryView | null {
  if (!["create", "replace", "delete"].includes(own.action)) return null;
  const earlier = entries.filter(({ seq, rule: id }) => seq < own.seq && id !== null);
  const found = earlier.find(({ action, rule: id, before, after }) =>
    own.before === null ? action !== "expire" && after === null && isSame(before, own.after) : id === own.rule,
  );
  const isInverse = found !== undefined && isSame(found.before, own.after) && isSame(found.after, own.before);
  return isInverse ? found : null;
}

/**
 * The entry that prevents an undo: a later entry of the same rule, or an entry that has created an equal rule again.
 */
function searchedObstacle(own: AuditEntryView, entries: readonly AuditEntryView[]): number | undefined {
  const later = entries.filter(({ seq }) => seq > own.seq);
  const ofRule = later.find(({ rule: id }) => id === own.rule);
  if (ofRule !== undefined || own.after !== null) return ofRule?.seq;
  return later.find(
    ({ after, rule: id, seq }) =>
      after !== null && isSame(after, own.before) && !later.some((other) => other.rule === id && other.seq > seq),
  )?.seq;
}

const step = fc.record({
  id: fc.constantFrom("a", "b", "c"),
  mode: fc.constantFrom("enforce" as const, "off" as const, null),
  how: fc.constantFrom("change", "expire", "rollback", "reset"),
});

const history = fc.array(step, { maxLength: 16 }).map((steps) => {
  const rules = new Map<string, AuditedRule>();
  const entries: AuditEntryView[] = [];
  for (const { id, mode, how } of steps) {
    const seq = entries.length + 1;
    const before = rules.get(id) ?? null;
    const after = mode === null || how === "expire" ? null : rule({ id, mode, revision: seq });
    if (how === "reset") entries.unshift(entry({ seq, action: "reset", policy: "api" }));
    if (how === "reset" || (before === null && after === null)) continue;
    if (after === null) rules.delete(id);
    else rules.set(id, after);
    const changed = before === null ? "create" : after === null ? "delete" : "replace";
    const action = how === "change" ? changed : how;
    entries.unshift(entry({ seq, action, before, after }));
  }
  return entries;
});

/** A log with this many entries, each of which changes one of many rules. */
const longLog = (count: number): AuditEntryView[] =>
  Array.from({ length: count }, (_, index) => {
    const seq = count - index;
    const own = rule({ id: `r${seq % 97}`, keyId: `k${seq}`, revision: seq });
    return seq % 2 === 0 ? entry({ seq, action: "delete", before: own }) : entry({ seq, after: own });
  });

describe("the index of audit entries", () => {
  it(
    "the index finds the same undone entries and obstacles as a search through all entries",
    forAll([history], (entries) => {
      const index = new History(entries);
      for (const own of entries) {
        expect(index.undoneBy(own)).toBe(searchedUndone(own, entries));
        if (own.action === "expire" || own.action === "reset") continue;
        const option = index.undoOption(own, startMs);
        const by = "obstacle" in option ? /^entry (\d+)/.exec(option.obstacle)?.[1] : undefined;
        expect(by).toBe(searchedObstacle(own, entries)?.toString());
      }
    }),
  );

  it("the index reads each entry of a long log a few times, regardless of how many entries are queried", () => {
    let reads = 0;
    const log = longLog(5_000).map((own) => ({
      ...own,
      get rule() {
        reads += 1;
        return own.rule;
      },
    }));
    const index = new History(log);
    for (const own of log) {
      index.undoneBy(own);
      index.undoOption(own, startMs);
    }
    expect(reads).toBeLessThanOrEqual(5 * log.length);
  });
});

describe("the shown part of a list of entries", () => {
  const log = longLog(1_050);

  it("the window of shown entries has at most 200, and moves through the whole list and back without skipping an entry", () => {
    const seen = new Set<number>();
    let first: number | null = null;
    let part = entryWindow(log, first);
    const look = (): void => {
      part = entryWindow(log, first);
      expect(part.rows.length).toBeLessThanOrEqual(mostShownEntries);
      expect(part.newer + part.rows.length + part.older).toBe(log.length);
      for (const { seq } of part.rows) seen.add(seq);
    };
    look();
    while (part.older > 0) {
      first = olderFirst(part, first);
      look();
    }
    expect(seen.size).toBe(log.length);
    while (part.newer > 0) {
      first = newerFirst(log, part);
      look();
    }
    expect(first).toBeNull();
  });

  it("the window of shown entries moves to a named entry, and stays where it is if it contains the entry", () => {
    const first = firstAround(log, null, 2);
    expect(entryWindow(log, first).rows.map(({ seq }) => seq)).toContain(2);
    expect(firstAround(log, first, 1)).toBe(first);
    expect(firstAround(log, null, 1_000)).toBeNull();
    expect(firstAround(log, first, 5_000)).toBe(first);
  });
});

describe("a log of 100,000 entries", () => {
  /** The log returns pages as the admin API does, and counts them. */
  const countedLog = (count: number) => {
    const log = { newest: count, reads: 0 };
    const loaded = new LoadedEntries((cursor, limit) => {
      log.reads += 1;
      return Promise.resolve(generatedPage(log.newest, cursor, limit));
    });
    return { log, loaded };
  };

  it("an old entry is shown among its neighbors after two requests", async () => {
    const { log, loaded } = countedLog(100_000);
    await loaded.show(2);
    expect(log.reads).toBe(2);
    expect(loaded.all.value).toHaveLength(100);
    expect(loaded.excerpt.value?.map(({ seq }) => seq)).toContain(2);
    expect(loaded.excerpt.value?.length).toBeLessThanOrEqual(100);
  });

  it("all entries after an entry within reach are loaded, in long pages", async () => {
    const { log, loaded } = countedLog(100_000);
    await loaded.show(100_000 - mostReached);
    expect(loaded.excerpt.value).toBeNull();
    expect(loaded.all.value?.at(-1)?.seq).toBeLessThanOrEqual(100_000 - mostReached);
    expect(log.reads).toBeLessThanOrEqual(26);
  });

  it("a rollback to an entry out of reach has no preview and reads nothing", async () => {
    const { log, loaded } = countedLog(100_000);
    expect(await loaded.loadTo(0)).toBe(false);
    expect(log.reads).toBe(1);
  });

  it("the history restarts with the newest entries when very many were added since the last read", async () => {
    const { log, loaded } = countedLog(50_000);
    await loaded.loadNewer();
    log.newest = 100_000;
    await loaded.loadNewer();
    expect(log.reads).toBe(2);
    expect(loaded.all.value?.[0]?.seq).toBe(100_000);
    expect(loaded.all.value).toHaveLength(100);
    await loaded.loadOlder();
    expect(loaded.all.value?.at(-1)?.seq).toBe(99_801);
  });
});
