/** The most denied keys and the greatest spenders of the last day, and their sealed keys. */
import { expect, it } from "vitest";
import { StatisticsStore } from "../../../src/control/object/statistics.ts";
import type { PolicyCounts, TopKey } from "../../../src/control/protocol.ts";
import { MemorySql } from "../../fakes/memory-sql.ts";
import { beat, counts, denial } from "./batches.ts";

const startMs = Date.UTC(2026, 10, 22, 10);
const hourMs = 3_600_000;

function world(storage = new MemorySql()) {
  const store = new StatisticsStore(storage, startMs);
  let seq = 0;
  const record = (nowMs: number, policies: Record<string, Partial<PolicyCounts>>): void => {
    const all = Object.entries(policies).map(([policy, each]) => [policy, counts(each)] as const);
    const batch = { seq: ++seq, agoMs: 0, policies: Object.fromEntries(all), originFailures: 0 };
    store.record(beat([batch], { isolate: String(startMs) }), nowMs);
  };
  return { storage, store, record };
}

const key = (name: string, count: number, others: Partial<TopKey> = {}): TopKey => ({
  key: name,
  count,
  error: 0,
  ...others,
});

const denied = { policy: "api", by: "denied", limit: 10 } as const;

it("each policy has its own lists of denied keys and of spenders", () => {
  const { store, record } = world();
  record(startMs, {
    api: { topDenied: [key("a", 3)], topSpenders: [key("b", 40), key("a", 5)] },
    login: { topDenied: [key("c", 1)] },
  });
  expect(store.top(denied, startMs)).toEqual([key("a", 3)]);
  expect(store.top({ ...denied, by: "cost" }, startMs)).toEqual([key("b", 40), key("a", 5)]);
  expect(store.top({ ...denied, by: "cost", limit: 1 }, startMs)).toEqual([key("b", 40)]);
  expect(store.top({ ...denied, policy: "login" }, startMs)).toEqual([key("c", 1)]);
  expect(store.top({ ...denied, policy: "none" }, startMs)).toEqual([]);
});

it("the lists are those of the last 24 hours, also after a restart", () => {
  const { storage, record } = world();
  for (let hour = 0; hour <= 30; hour++) {
    record(startMs + hour * hourMs, { api: { topDenied: [key("all", 1), key(`at ${hour}`, 1)] } });
  }
  const { store } = world(storage);
  const [first, ...others] = store.top({ ...denied, limit: 100 }, startMs + 30 * hourMs);
  expect(first).toEqual(key("all", 24));
  expect(others.map(({ key: name }) => name).toSorted()).toEqual(
    Array.from({ length: 24 }, (_, index) => `at ${index + 7}`).toSorted(),
  );
});

it("a list can begin with a later hour, also after a restart", () => {
  const { storage, store, record } = world();
  for (let hour = 0; hour <= 3; hour++) record(startMs + hour * hourMs, { api: { topDenied: [key("a", 1)] } });
  const nowMs = startMs + 3 * hourMs;
  const from = (hour: number) => ({ ...denied, fromMs: startMs + hour * hourMs });
  expect(store.top(from(1), nowMs)).toEqual([key("a", 3)]);
  store.write(nowMs);
  expect(world(storage).store.top(from(2), nowMs)).toEqual([key("a", 2)]);
  expect(store.top(from(4), nowMs)).toEqual([]);
});

it("the top keys of an hour and policy take one row, which is overwritten a day later", () => {
  const { storage, record } = world();
  for (let hour = 0; hour <= 50; hour++) {
    record(startMs + hour * hourMs, { api: { topDenied: [key("a", 1)] }, login: {} });
  }
  expect(storage.sql.exec("SELECT * FROM top_keys").toArray()).toHaveLength(2 * 24);
});

it("the error of a key includes the counts that the isolates' lists may have omitted", () => {
  const { store, record } = world();
  record(startMs, { api: { topDenied: [key("a", 100)], mostOtherDenied: 7 } });
  record(startMs + 1, { api: { topDenied: [key("b", 50, { error: 2 })] } });
  expect(store.top(denied, startMs)).toEqual([key("a", 100), key("b", 57, { error: 9 })]);
});

it("a list can have only the keys within one key, however many others are before them", () => {
  const { store, record } = world();
  const spenders = Array.from({ length: 20 }, (_, index) => key(`other.${index}`, 100 - index));
  record(startMs, { api: { topSpenders: [...spenders, key("org.a", 2), key("org.b", 1), key("organ.c", 3)] } });
  const query = { policy: "api", by: "cost", limit: 10, within: "org" } as const;
  expect(store.top(query, startMs)).toEqual([key("org.a", 2), key("org.b", 1)]);
  expect(store.top({ ...query, within: "none" }, startMs)).toEqual([]);
});

it("the newest sealed key of a top key is shown, and kept over a restart", () => {
  const { storage, record } = world();
  record(startMs, { api: { topDenied: [key("a", 3, { sealed: "old" }), key("b", 1)] } });
  record(startMs + hourMs, { api: { topSpenders: [key("a", 3, { sealed: "new" })] } });
  const { store } = world(storage);
  const nowMs = startMs + hourMs;
  expect(store.top(denied, nowMs)).toEqual([key("a", 3, { sealed: "new" }), key("b", 1)]);
  expect(store.sealedKeys("api", ["b", "a"], nowMs)).toEqual([null, "new"]);
  expect(store.sealedKeys("login", ["a"], nowMs)).toEqual([null]);
});

it("within 24 hours, queries no longer return a sealed key and storage no longer contains it", () => {
  const { storage, store, record } = world();
  record(startMs, { api: { topDenied: [key("a", 3, { sealed: "a secret name" })] } });
  expect(store.sealedKeys("api", ["a"], startMs + 23 * hourMs)).toEqual(["a secret name"]);
  expect(store.sealedKeys("api", ["a"], startMs + 24 * hourMs)).toEqual([null]);
  for (let due = store.dueAtMs(); due !== null && due <= startMs + 24 * hourMs;) {
    store.run(due);
    due = store.dueAtMs();
  }
  const rows = ["statistics", "top_keys", "minutes", "hours"].flatMap((table) =>
    storage.sql.exec(`SELECT * FROM ${table}`).toArray(),
  );
  expect(JSON.stringify(rows)).not.toContain("a secret name");
});

it("the sealed key of a tail entry is known although the key is in no list", () => {
  const { store } = world();
  const tail = [denial({ key: "t", sealed: "of the tail" }), denial({ key: "u" })];
  store.record(beat([], { tail }), startMs);
  expect(store.sealedKeys("api", ["t"], startMs)).toEqual(["of the tail"]);
  expect(store.sealedKeys("api", ["u"], startMs)).toEqual([null]);
});

it("at most 512 sealed keys are kept for each hour and policy, and a sealed key that is too long is not kept", () => {
  const { store, record } = world();
  const topDenied = Array.from({ length: 600 }, (_, index) =>
    key(`k${index}`, 1, { sealed: index === 599 ? "x".repeat(1_025) : `s${index}` }),
  );
  record(startMs, { api: { topDenied } });
  const known = store.sealedKeys(
    "api",
    topDenied.map(({ key: name }) => name),
    startMs,
  );
  expect(known.filter((sealed) => sealed !== null)).toHaveLength(512);
  expect(store.sealedKeys("api", ["k598"], startMs)).toEqual(["s598"]);
  expect(store.sealedKeys("api", ["k599"], startMs)).toEqual([null]);
});

it("the cost of a spender is what it spent without what settlements gave back, and never below 0", () => {
  const { storage, record } = world();
  record(startMs, { api: { topSpenders: [key("a", 100), key("b", 60), key("c", 5)] } });
  const laterMs = startMs + 60_000;
  record(laterMs, { api: { topRefunded: [key("a", 90), key("c", 5), key("d", 7)] } });
  const { store } = world(storage);
  expect(store.top({ ...denied, by: "cost" }, laterMs)).toEqual([key("b", 60), key("a", 10)]);
});

it("the error of a spender includes the refunds that the isolates' lists may have omitted", () => {
  const { store, record } = world();
  record(startMs, { api: { topSpenders: [key("a", 100, { error: 2 }), key("b", 4)] } });
  record(startMs + 1, { api: { topRefunded: [key("a", 30, { error: 10 })], mostOtherRefunded: 6 } });
  expect(store.top({ ...denied, by: "cost" }, startMs + 1)).toEqual([
    key("a", 80, { error: 12 }),
    key("b", 4, { error: 4 }),
  ]);
});
