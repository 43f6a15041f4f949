/** Recorded keys in the control plane: which keys isolates record, and what is kept of their requests. */
import { expect, it } from "vitest";
import { StatisticsStore } from "../../../src/control/object/statistics.ts";
import type { PolicyCounts } from "../../../src/control/protocol.ts";
import type { RecordedOutcomes } from "../../../src/control/recording-calls.ts";
import { MemorySql } from "../../fakes/memory-sql.ts";
import { batch, beat } from "./batches.ts";

const startMs = Date.UTC(2026, 10, 22, 10);
const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;
const name = { policy: "api", key: "k" };
const all = { fromMs: 0, toMs: Number.MAX_SAFE_INTEGER };

function world(storage = new MemorySql()) {
  const store = new StatisticsStore(storage, startMs);
  let seq = 0;
  const count = (nowMs: number, outcomes: PolicyCounts["outcomes"], { policy, key } = name): void => {
    const recorded: RecordedOutcomes = { [policy]: { [key]: outcomes } };
    store.record(beat([{ ...batch(++seq, 1), recorded }], { isolate: String(startMs) }), nowMs);
  };
  const points = () => store.recordings.history({ ...name, ...all }).points;
  return { storage, store, recordings: store.recordings, count, points };
}

it("a key is recorded for an hour, and a second call extends the recording", () => {
  const { recordings } = world();
  const period = { fromMs: startMs, untilMs: startMs + hourMs };
  expect(recordings.start(name, startMs)).toEqual({ kind: "done", value: period });
  const extended = { fromMs: startMs, untilMs: startMs + minuteMs + hourMs };
  expect(recordings.start(name, startMs + minuteMs)).toEqual({ kind: "done", value: extended });
  expect(recordings.history({ ...name, ...all }).periods).toEqual([extended]);
});

it("an isolate gets the recorded keys with the time that is left, unless it knows them", () => {
  const { recordings } = world();
  expect(recordings.listFor(0, startMs)).toBeNull();
  recordings.start(name, startMs);
  const list = recordings.listFor(0, startMs + minuteMs);
  expect(list).toEqual({ version: startMs, keys: [{ ...name, forMs: 59 * minuteMs }] });
  expect(recordings.listFor(startMs, startMs + minuteMs)).toBeNull();
  recordings.stop(name, startMs + minuteMs);
  expect(recordings.listFor(startMs, startMs + minuteMs)?.keys).toEqual([]);
});

it("at most 100 keys are recorded at a time, and the refusal has the end of the recording that ends first", () => {
  const { recordings } = world();
  for (let index = 0; index < 100; index++) recordings.start({ ...name, key: `k${index}` }, startMs + index);
  const refused = { kind: "recordings-full", most: 100, nextEndMs: startMs + hourMs };
  expect(recordings.start(name, startMs + 200)).toEqual(refused);
  recordings.stop({ ...name, key: "k7" }, startMs + 200);
  expect(recordings.start(name, startMs + 200)).toMatchObject({ kind: "done" });
});

it("outcomes of recorded keys are counted by minute, and those of other keys are ignored", () => {
  const { recordings, count, points } = world();
  recordings.start(name, startMs);
  count(startMs + 1_000, { allowed: 2, denied: 1 });
  count(startMs + 2_000, { denied: 4 });
  count(startMs + minuteMs, { allowed: 1 });
  count(startMs + minuteMs, { allowed: 9 }, { ...name, key: "other" });
  expect(points()).toEqual([
    { atMs: startMs, outcomes: { allowed: 2, denied: 5 } },
    { atMs: startMs + minuteMs, outcomes: { allowed: 1 } },
  ]);
  expect(recordings.history({ ...name, key: "other", ...all })).toEqual({ periods: [], points: [] });
});

it("a restart loses only counts that isolates send again, and recordings continue", () => {
  const { storage, recordings, count } = world();
  recordings.start(name, startMs);
  for (let minute = 0; minute <= 130; minute++) {
    if (minute === 50) recordings.start(name, startMs + minute * minuteMs);
    count(startMs + minute * minuteMs, { allowed: 1 });
  }
  const restarted = world(storage);
  // The recording ended after 110 minutes, and batches may arrive two minutes late.
  expect(restarted.points()).toHaveLength(112);
  expect(restarted.recordings.listFor(0, startMs + 100 * minuteMs)?.keys).toHaveLength(1);
  const { rows } = storage.sql.exec<{ rows: number }>("SELECT count(*) AS rows FROM recorded").toArray()[0] ?? {};
  expect(rows).toBe(2);
});

it("recordings and their counts are deleted a day later", () => {
  const { storage, store, recordings, count, points } = world();
  recordings.start(name, startMs);
  count(startMs, { allowed: 1 });
  store.run(startMs + 2 * hourMs);
  expect(points()).toHaveLength(1);
  store.run(startMs + 2 * hourMs + dayMs);
  expect(recordings.history({ ...name, ...all })).toEqual({ periods: [], points: [] });
  expect(storage.sql.exec("SELECT * FROM recorded").toArray()).toEqual([]);
});
