/** The metrics in the Prometheus text format, version 0.0.4. No metric has a label per key. */
import { latencyBoundsMs, outcomeNames, type PolicyInfo } from "../protocol.ts";
import type { Counts, Tally } from "./statistics-rows.ts";

export interface RulesMetrics {
  readonly policies: readonly PolicyInfo[];
  /** Live rules by policy and kind. */
  readonly rules: readonly {
    readonly policy: string;
    readonly kind: string;
    readonly count: number;
  }[];
  readonly pendingRules: number;
  readonly epochMs: number;
  /** The number of the last change. */
  readonly version: number;
}

export interface MetricsInput extends RulesMetrics {
  /** Counts that never decrease. */
  readonly totals: Tally;
  /** Null before the first beat. */
  readonly lastBeatMs: number | null;
}

type Labels = Readonly<Record<string, string>>;
type Sample = readonly [labels: Labels, value: number, suffix?: string];
type Metric = readonly [
  name: string,
  type: "counter" | "gauge" | "histogram",
  help: string,
  samples: readonly Sample[],
];

/** The modes of `headgate_fallback_decisions_total`, which are those of `onError`. */
const fallbackModes = ["local", "open", "closed"] as const;

export const metricsText = (input: MetricsInput): string =>
  [...decisionMetrics(input), ...ruleMetrics(input)].map(textOf).join("");

function decisionMetrics({ totals, policies }: MetricsInput): Metric[] {
  const names = [...new Set([...policies.map(({ name }) => name), ...totals.policies])].toSorted();
  const each = names.map((policy) => ({ policy, counts: totals.of(policy) }));
  return [
    [
      "decisions_total",
      "counter",
      "Decisions by policy and outcome.",
      each.flatMap(({ policy, counts }) =>
        outcomeNames.map((outcome): Sample => [{ policy, outcome }, counts.outcomes[outcome] ?? 0]),
      ),
    ],
    [
      "near_limit_decisions_total",
      "counter",
      "Decisions after which less than 20 % of a limit was left.",
      each.map(({ policy, counts }) => [{ policy }, counts.nearLimit]),
    ],
    [
      "decision_duration_seconds",
      "histogram",
      "Duration of decisions that called a Durable Object.",
      each.flatMap(({ policy, counts }) => histogram(policy, counts)),
    ],
    [
      "fallback_decisions_total",
      "counter",
      "Decisions by onError, because the Durable Object did not answer.",
      each.flatMap(({ policy, counts }) =>
        fallbackModes.map((mode): Sample => [{ policy, mode }, counts.outcomes[`fallback-${mode}`] ?? 0]),
      ),
    ],
    [
      "requests_total",
      "counter",
      "Requests that enforced policies decided. A request counts once, however many policies decide it.",
      [
        [{ outcome: "allowed" }, totals.requests - totals.deniedRequests],
        [{ outcome: "denied" }, totals.deniedRequests],
      ],
    ],
    ["origin_failures_total", "counter", "Requests that the origin did not answer.", [[{}, totals.originFailures]]],
  ];
}

function ruleMetrics({ policies, rules, pendingRules, epochMs, version, lastBeatMs }: MetricsInput): Metric[] {
  const limits = policies.flatMap(({ name: policy, limits: own }) =>
    own.map((each) => ({ ...each, labels: { policy, limit: each.name } })),
  );
  return [
    [
      "limit",
      "gauge",
      "Units that the limit allows per window, for a key without overrides or rules of its own.",
      limits.map(({ labels, limit }) => [labels, limit]),
    ],
    [
      "limit_window_seconds",
      "gauge",
      "Length of the limit's window.",
      limits.map(({ labels, windowMs }) => [labels, windowMs / 1_000]),
    ],
    [
      "rules",
      "gauge",
      "Runtime rules that have not expired.",
      rules.map(({ policy, kind, count }) => [{ policy, kind }, count]),
    ],
    ["pending_rules", "gauge", "Key rules that their key's object has not confirmed yet.", [[{}, pendingRules]]],
    ["control_plane_version", "gauge", "Number of the last change of a rule.", [[{}, version]]],
    [
      "control_plane_epoch_seconds",
      "gauge",
      "Unix time at which the control plane was created or its storage was restored.",
      [[{}, epochMs / 1_000]],
    ],
    [
      "last_beat_timestamp_seconds",
      "gauge",
      "Unix time of the last beat of any isolate. Isolates send beats only while they receive requests.",
      lastBeatMs === null ? [] : [[{}, lastBeatMs / 1_000]],
    ],
  ];
}

/** Cumulative buckets, the sum and the count. */
function histogram(policy: string, { latency, latencySumMs }: Counts): Sample[] {
  const decisions = new Map(latency);
  let count = 0;
  const buckets = latencyBoundsMs.map((boundMs, index): Sample => {
    count += decisions.get(index) ?? 0;
    return [{ policy, le: String(boundMs / 1_000) }, count, "_bucket"];
  });
  const all = count + (decisions.get(latencyBoundsMs.length) ?? 0);
  return [
    ...buckets,
    [{ policy, le: "+Inf" }, all, "_bucket"],
    [{ policy }, latencySumMs / 1_000, "_sum"],
    [{ policy }, all, "_count"],
  ];
}

/** The lines of one metric; only its description when it has no samples. */
function textOf([name, type, help, samples]: Metric): string {
  const full = `headgate_${name}`;
  const lines = samples.map(([labels, value, suffix = ""]) => `${full}${suffix}${labelText(labels)} ${value}\n`);
  return `# HELP ${full} ${help}\n# TYPE ${full} ${type}\n${lines.join("")}`;
}

function labelText(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escaped(value)}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}

const escaped = (value: string): string =>
  value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
