/** The Prometheus metrics of the control plane. */
import { spawnSync } from "node:child_process";
import { expect, it } from "vitest";
import { type MetricsInput, metricsText } from "../../../src/control/object/metrics.ts";
import { StatisticsStore } from "../../../src/control/object/statistics.ts";
import { Tally } from "../../../src/control/object/statistics-rows.ts";
import { outcomeNames } from "../../../src/control/protocol.ts";
import { MemorySql } from "../../fakes/memory-sql.ts";
import { batch, beat, counts } from "./batches.ts";
import { exampleMetrics } from "./example-metrics.ts";
import { promtool } from "./promtool.ts";

const none: MetricsInput = {
  totals: new Tally(),
  policies: [],
  rules: [],
  pendingRules: 0,
  epochMs: 1_800_000_000_000,
  version: 0,
  lastBeatMs: null,
};

const lines = (input: Partial<MetricsInput>): string[] =>
  metricsText({ ...none, ...input })
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"));

const linesOf = (name: string, input: MetricsInput): string[] =>
  lines(input).filter((line) => line.startsWith(`headgate_${name}`));

it("every outcome of every policy has a counter, which starts at 0", () => {
  const found = linesOf("decisions_total", exampleMetrics());
  expect(found).toHaveLength(3 * outcomeNames.length);
  expect(found).toContain('headgate_decisions_total{policy="login",outcome="denied"} 20');
  expect(found).toContain('headgate_decisions_total{policy="login",outcome="fallback-open"} 0');
  // The counters of a policy stay after a deployment that removes the policy.
  expect(found).toContain('headgate_decisions_total{policy="gone",outcome="allowed"} 1');
});

it("the buckets of the histogram are cumulative, and the last one counts every decision", () => {
  const found = linesOf("decision_duration_seconds", exampleMetrics()).filter((line) =>
    line.includes('policy="login"'),
  );
  expect(found.slice(0, 4)).toEqual([
    'headgate_decision_duration_seconds_bucket{policy="login",le="0.001"} 5',
    'headgate_decision_duration_seconds_bucket{policy="login",le="0.002"} 5',
    'headgate_decision_duration_seconds_bucket{policy="login",le="0.003"} 5',
    'headgate_decision_duration_seconds_bucket{policy="login",le="0.004"} 12',
  ]);
  expect(found.slice(-4)).toEqual([
    'headgate_decision_duration_seconds_bucket{policy="login",le="8.192"} 12',
    'headgate_decision_duration_seconds_bucket{policy="login",le="+Inf"} 14',
    'headgate_decision_duration_seconds_sum{policy="login"} 20.5',
    'headgate_decision_duration_seconds_count{policy="login"} 14',
  ]);
});

it("the configured limit of each policy is a gauge, with its window", () => {
  expect(linesOf("limit", exampleMetrics())).toEqual([
    'headgate_limit{policy="login",limit="login"} 5',
    'headgate_limit{policy="login",limit="login-day"} 50',
    'headgate_limit{policy="api",limit="api"} 100',
    'headgate_limit_window_seconds{policy="login",limit="login"} 60',
    'headgate_limit_window_seconds{policy="login",limit="login-day"} 86400',
    'headgate_limit_window_seconds{policy="api",limit="api"} 0.5',
  ]);
});

it("rules, versions and times are gauges", () => {
  const found = lines(exampleMetrics());
  expect(found).toContain('headgate_rules{policy="login",kind="block"} 2');
  expect(found).toContain("headgate_pending_rules 1");
  expect(found).toContain("headgate_control_plane_version 17");
  expect(found).toContain("headgate_control_plane_epoch_seconds 1800000000.25");
  expect(found).toContain("headgate_last_beat_timestamp_seconds 1800000500");
  expect(found).toContain("headgate_origin_failures_total 4");
  expect(found).toContain('headgate_requests_total{outcome="allowed"} 90');
  expect(found).toContain('headgate_requests_total{outcome="denied"} 20');
  expect(found).toContain('headgate_fallback_decisions_total{policy="login",mode="local"} 3');
  expect(found).toContain('headgate_near_limit_decisions_total{policy="login"} 6');
});

it("before the first beat, the metrics have no time of a beat", () => {
  expect(lines({}).filter((line) => line.startsWith("headgate_last_beat"))).toEqual([]);
});

it("no metric has a label per key", () => {
  const labels = new Set([...metricsText(exampleMetrics()).matchAll(/[{,](\w+)="/g)].map(([, label]) => label));
  expect(labels).toEqual(new Set(["policy", "outcome", "le", "mode", "limit", "kind"]));
});

it("quotes, backslashes and line breaks in a label are escaped", () => {
  const limits = [{ name: 'a"b\\c\nd', limit: 1, windowMs: 1_000 }];
  const policies = [{ ...exampleMetrics().policies[0], name: "p", limits }] as never;
  expect(lines({ policies })).toContain('headgate_limit{policy="p",limit="a\\"b\\\\c\\nd"} 1');
});

it("counters do not decrease when the object loses its memory", () => {
  const storage = new MemorySql();
  let store = new StatisticsStore(storage, 0);
  const shown: number[] = [];
  for (let seq = 1; seq <= 40; seq++) {
    const nowMs = seq * 5_000;
    const policies = { api: counts({ outcomes: { allowed: 1 } }) };
    store.record(beat([{ seq, agoMs: 0, policies, originFailures: 0 }]), nowMs);
    shown.push(store.totals(nowMs).of("api").outcomes.allowed ?? 0);
    if (seq % 7 === 0) store = new StatisticsStore(storage, nowMs);
  }
  expect(shown).toEqual(shown.toSorted((one, other) => one - other));
  expect(shown.at(-1)).toBeGreaterThan(10);
});

it("a read of the counters first stores the counts that are not stored yet, at most every 5 s", () => {
  const storage = new MemorySql();
  const store = new StatisticsStore(storage, 0);
  const allowedAt = (nowMs: number): number | undefined => store.totals(nowMs).of("api").outcomes.allowed;
  store.record(beat([batch(1, 5)]), 0);
  store.record(beat([batch(2, 7)]), 4_000);
  expect(allowedAt(4_999)).toBe(5);
  expect(allowedAt(5_000)).toBe(12);
  store.record(beat([batch(3, 1)]), 5_001);
  storage.rowsWritten = 0;
  expect([6_000, 9_999, 10_000, 15_000, 20_000].map(allowedAt)).toEqual([12, 12, 13, 13, 13]);
  expect(storage.rowsWritten).toBe(1);
  expect(new StatisticsStore(storage, 20_000).totals(20_000).of("api").outcomes.allowed).toBe(13);
});

it.skipIf(promtool === null)("promtool finds nothing wrong with the metrics", () => {
  for (const input of [none, exampleMetrics()]) {
    const { status, stdout, stderr } = spawnSync(promtool ?? "", ["check", "metrics"], {
      input: metricsText(input),
      encoding: "utf8",
    });
    expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: "", stderr: "" });
  }
});
