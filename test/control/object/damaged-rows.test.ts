/** Stored statistics that cannot be read: they are skipped, and everything else is counted and answered as before. */
import { expect, it } from "vitest";
import { batch, beat, counts } from "./batches.ts";
import { TestPlane } from "./test-plane.ts";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

/** The open state, as far as tests damage it. */
interface State {
  minutes: unknown;
  batches: unknown;
  totals: { policies: Record<string, Record<string, unknown> | null>; originFailures?: number };
  top: { policies: Record<string, Record<string, unknown> | null> };
  samples: Record<string, unknown>;
}
type Damage = (plane: TestPlane) => void;

const insert =
  (table: "minutes" | "hours" | "top_keys", body: string): Damage =>
  ({ storage: { sql }, clock }) => {
    const atMs = Math.floor(clock.nowMs / hourMs) * hourMs - hourMs;
    if (table !== "top_keys") sql.exec(`INSERT OR REPLACE INTO ${table} VALUES (0, ?, ?)`, atMs, body);
    else sql.exec("INSERT INTO top_keys VALUES (0, 'api', ?, ?)", atMs, body);
  };

const edit =
  (change: (state: State, nowMs: number) => void): Damage =>
  ({ storage: { sql }, clock }) => {
    const [row] = sql.exec<{ body: string }>("SELECT body FROM statistics").toArray();
    const state = JSON.parse(row?.body ?? "") as State;
    change(state, clock.nowMs);
    sql.exec("UPDATE statistics SET body = ?", JSON.stringify(state));
  };

const addMinute = (policies: unknown): Damage =>
  edit((state, nowMs) => (state.minutes = [[Math.floor(nowMs / minuteMs) * minuteMs, { policies }]]));

const cases: readonly [name: string, damage: Damage][] = [
  ...(["minutes", "hours"] as const).flatMap((table): [string, Damage][] =>
    ["{", "null", '{"policies":{"api":{}}}', '{"policies":{"api":null}}'].map((body) => [
      `the row ${body} of ${table}`,
      insert(table, body),
    ]),
  ),
  ...["{", "null", '{"denied":[1,null],"spenders":[2,5],"sealed":[null]}', '{"denied":null}'].map(
    (body): [string, Damage] => [`the row ${body} of top keys`, insert("top_keys", body)],
  ),
  ["a state that is not JSON", ({ storage }) => storage.sql.exec("UPDATE statistics SET body = '{'")],
  ["minutes without rows", edit((state) => (state.minutes = [null, {}, [null]]))],
  ["a minute with an empty policy", addMinute({ api: {} })],
  ["a minute with the policy null", addMinute({ api: null })],
  [
    "a minute with outcomes that are no numbers",
    addMinute({ api: { outcomes: { allowed: "5" }, latency: [[1, null]] } }),
  ],
  ["totals with an empty policy", edit(({ totals }) => (totals.policies = { api: {} }))],
  ["totals with the policy null", edit(({ totals }) => (totals.policies = { api: null }))],
  ["totals without latencies", edit(({ totals }) => delete totals.policies["api"]?.["latency"])],
  ["totals without failures of the origin", edit(({ totals }) => delete totals.originFailures)],
  ["batches in another form", edit((state) => (state.batches = {}))],
  ["the sender null", edit((state) => (state.batches = [0, [null]]))],
  ["the sender {}", edit((state) => (state.batches = [0, [{}]]))],
  ["a sender without missing numbers", edit((state) => (state.batches = [0, [["one", 1, 0, 0]]]))],
  ["the top keys null", edit(({ top }) => (top.policies = { api: null }))],
  ["a top key null", edit(({ top }) => (top.policies = { api: { denied: [0, null], spenders: [0, []] } }))],
  ["a sealed key null", edit(({ top }) => (top.policies = { api: { sealed: [null, [1, 2]] } }))],
  ["samples in another form", edit(({ samples }) => Object.assign(samples, { open: [null, {}, [1]] }))],
  ["dropped samples null", edit(({ samples }) => Object.assign(samples, { dropped: [null, {}] }))],
  ["a time of samples that is no number", edit(({ samples }) => Object.assign(samples, { storedAtMs: { api: "x" } }))],
];

it.each(cases)("%s is skipped", async (_, damage) => {
  const plane = new TestPlane();
  const listed = [{ key: "a", count: 5, error: 0 }];
  const send = (seq: number) => {
    const policies = {
      api: counts({ outcomes: { allowed: 5 }, latency: [[1, 2]], latencySumMs: 3, topDenied: listed }),
    };
    return plane.control.beat(beat([{ ...batch(seq, 5), policies }])).storedSeq;
  };
  send(1);
  damage(plane);
  plane.restart();
  await plane.pass(minuteMs);
  expect(send(2)).toBe(2);
  const { clock, control } = plane;
  const span = { fromMs: clock.nowMs - 2 * hourMs, toMs: clock.nowMs + minuteMs };
  for (const stepMs of [minuteMs, hourMs]) {
    const { points } = control.statistics({ ...span, stepMs });
    expect(points.at(-1)?.outcomes.allowed).toBeGreaterThanOrEqual(5);
  }
  expect(control.top({ policy: "api", by: "denied", limit: 5 })).toMatchObject([{ key: "a" }]);
  expect(control.sealedKeys("api", ["a"])).toEqual([null]);
  expect(control.samples({ policy: "api", ...span })).toMatchObject({ dropped: 0, storedAtMs: null });
  const metrics = control.metrics();
  expect(metrics).toMatch(/outcome="allowed"\} \d+/);
  expect(metrics).not.toMatch(/NaN|undefined/);
  await plane.pass(2 * hourMs);
  await control.alarm();
  expect(send(3)).toBe(3);
});
