/** The forms of every strategy that the benchmarks distinguish. */
import { type Limit, parseLimits } from "../../src/strategies/index.ts";

export interface Form {
  readonly title: string;
  readonly strategy: string;
  readonly options: Readonly<Record<string, string>>;
}

const form = (strategy: string, options: Form["options"] = {}): Form => ({
  title: [strategy, ...Object.values(options)].join(" "),
  strategy,
  options,
});

/**
 * Excludes calendar windows, which are clock-aligned windows of another length, and elastic windows, which are
 * deprecated.
 */
export const forms: readonly Form[] = [
  form("fixed-window", { align: "first-request" }),
  form("fixed-window", { align: "clock" }),
  form("sliding-log"),
  form("sliding-window-counter", { align: "first-request" }),
  form("sliding-window-counter", { align: "clock" }),
  form("sliding-buckets", { edge: "keep" }),
  form("sliding-buckets", { edge: "drop" }),
  form("token-bucket", { refill: "continuous" }),
  form("token-bucket", { refill: "interval" }),
  form("leaky-bucket", { mode: "queue" }),
  form("leaky-bucket", { mode: "police" }),
  form("concurrency"),
];

export function limitsOf({ strategy, options }: Form, limit: number, windowMs: number): Limit[] {
  return parseLimits({ limit, window: `${windowMs}ms`, strategy, ...options });
}
