/** The traffic that a command replays, with what was read of it. */
import type { Limit } from "../../strategies/index.ts";
import type { Timelines } from "../replay/timelines.ts";
import { deniedArrivals } from "../replay/traffic-notes.ts";
import type { Progress } from "./progress.ts";
import { clockText, countOf } from "./report-text.ts";
import { waitText } from "../../strategies/index.ts";
import type { LogFilter, TrafficChoice, TrafficValues } from "./traffic-options.ts";

export interface ReadTraffic {
  readonly timelines: Timelines;
  /** The lines and keys that were read, for people. */
  readonly lines: readonly string[];
  /** The same for programs. */
  readonly facts: Readonly<Record<string, unknown>>;
  /** The parts of the key, as the configuration writes them. */
  readonly keyParts: readonly string[];
  /** The names among them that are fields of a log and not key parts. */
  readonly keyFields: readonly string[];
  /** Which requests of a log are read; null for samples. */
  readonly filter: LogFilter | null;
  /** The sampled policy; null for a log. */
  readonly policy: SampledPolicy | null;
}

export interface SampledPolicy {
  readonly name: string;
  readonly limits: readonly Limit[];
}

/** @throws CommandError when the traffic cannot be read, or there is none */
export async function readTraffic(
  choice: TrafficChoice,
  values: TrafficValues,
  progress: Progress,
): Promise<ReadTraffic> {
  if (choice.kind === "log") {
    const { readLogTraffic } = await import("./log-traffic.ts");
    return readLogTraffic(choice, progress);
  }
  // The reader of the settings loads wrangler, which takes a second.
  const { readSampledTraffic } = await import("./sampled-traffic.ts");
  return readSampledTraffic(choice, values);
}

export const requestsOfKeys = ({ keys, atMs }: Pick<Timelines, "keys" | "atMs">): string =>
  `${countOf(atMs.length, "request")} of ${countOf(keys.length, "key")}`;

export const periodText = (fromMs: number, toMs: number): string =>
  `${clockText(fromMs)} to ${clockText(toMs)} UTC (${waitText(Math.max(1, toMs - fromMs))})`;

/** The fields of the facts that every source has. */
export const commonFacts = ({ keys, atMs, outcome, source }: Timelines): Record<string, unknown> => ({
  requests: atMs.length,
  keys: keys.length,
  from: new Date(source.fromMs).toISOString(),
  to: new Date(source.toMs).toISOString(),
  oneKeyIn: source.oneKeyIn,
  requestsOfAllKeys: source.requests,
  alreadyDenied: deniedArrivals({ outcome }),
  wholeSeconds: source.hasWholeSeconds === true,
});
