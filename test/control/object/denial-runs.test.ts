/** Since when a policy denies requests. */
import { expect, it } from "vitest";
import { StatisticsStore } from "../../../src/control/object/statistics.ts";
import type { PolicyCounts, StatisticsBatch } from "../../../src/control/protocol.ts";
import { MemorySql } from "../../fakes/memory-sql.ts";
import { beat, counts } from "./batches.ts";

const startMs = Date.UTC(2026, 10, 22, 10);
const minuteMs = 60_000;

class Denials {
  readonly storage = new MemorySql();
  store = new StatisticsStore(this.storage, startMs);
  #seq = 0;

  add(minute: number, outcomes: PolicyCounts["outcomes"] = { denied: 1 }, agoMs = 0): void {
    const batch: StatisticsBatch = {
      seq: ++this.#seq,
      agoMs,
      policies: { login: counts({ outcomes }) },
      originFailures: 0,
    };
    this.store.record(beat([batch]), startMs + minute * minuteMs);
  }

  /** The first and last minute of the run of `login`. */
  run(minute: number): readonly [since: number, last: number] | undefined {
    const nowMs = startMs + minute * minuteMs;
    const query = { fromMs: nowMs - minuteMs, toMs: nowMs, stepMs: minuteMs };
    const [run] = this.store.statistics(query, nowMs).denialRuns ?? [];
    return run && [(run.sinceMs - startMs) / minuteMs, (run.lastMs - startMs) / minuteMs];
  }
}

it("a run of denials goes on through pauses of up to five minutes, and a longer pause starts another run", () => {
  const denials = new Denials();
  for (const minute of [0, 1, 6]) denials.add(minute);
  expect(denials.run(6)).toEqual([0, 6]);
  denials.add(11.5);
  expect(denials.run(12)).toEqual([11.5, 11.5]);
});

it("bans and blocks are denials, and allowed requests, dry runs and decisions by onError are not", () => {
  const denials = new Denials();
  denials.add(0, { allowed: 5, "dry-run-denied": 5, "fallback-closed": 5, exempt: 1 });
  expect(denials.run(1)).toBeUndefined();
  denials.add(1, { banned: 1 });
  denials.add(2, { blocked: 1 });
  expect(denials.run(2)).toEqual([1, 2]);
});

it("a batch that arrives late extends the run backwards", () => {
  const denials = new Denials();
  denials.add(10);
  denials.add(11, { denied: 1 }, 3 * minuteMs);
  expect(denials.run(11)).toEqual([8, 10]);
});

it("a run is forgotten 24 hours after its last denial", () => {
  const denials = new Denials();
  denials.add(0);
  expect(denials.run(1_439)).toEqual([0, 0]);
  expect(denials.run(1_440)).toBeUndefined();
});

it("a run survives the loss of the object's memory", () => {
  const denials = new Denials();
  denials.add(0);
  denials.add(4);
  denials.store.write(startMs + 4 * minuteMs);
  denials.store = new StatisticsStore(denials.storage, startMs + 5 * minuteMs);
  denials.add(6);
  expect(denials.run(6)).toEqual([0, 6]);
});

it("after an upgrade from a version without runs, the minutes of the last day say since when a policy denies", () => {
  const denials = new Denials();
  for (let minute = 0; minute < 12; minute++) denials.add(minute);
  denials.store.write(startMs + 12 * minuteMs);
  const { sql } = denials.storage;
  const [row] = sql.exec<{ body: string }>("SELECT body FROM statistics").toArray();
  const { denialRuns: _, ...earlier } = JSON.parse(row?.body ?? "{}");
  sql.exec("UPDATE statistics SET body = ?", JSON.stringify(earlier));
  denials.store = new StatisticsStore(denials.storage, startMs + 12 * minuteMs);
  expect(denials.run(12)).toEqual([0, 12]);
});
