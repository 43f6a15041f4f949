/** Reads the traffic that a command replays, describes what was read, and shows the progress. */
import type { LogFilter, TrafficChoice, TrafficValues } from "./input-options.ts";
import { clockText, countOf } from "./report-text.ts";
import { deniedArrivals } from "../replay/recording.ts";
import type { Timelines } from "../replay/timelines.ts";
import { type Limit, waitText } from "../../strategies/index.ts";

const leastMs = 100;

export class Progress {
  #shownMs = 0;
  #isShown = false;

  /** @param share from 0 to 1; null when unknown */
  show(text: string, share: number | null): void {
    const nowMs = Date.now();
    if (!process.stderr.isTTY || nowMs - this.#shownMs < leastMs) return;
    this.#shownMs = nowMs;
    this.#isShown = true;
    const percent = share === null ? "" : ` ${Math.floor(Math.min(1, share) * 100)} %`;
    process.stderr.write(`\r\u001b[K${text}${percent}`);
  }

  clear(): void {
    if (this.#isShown) process.stderr.write("\r\u001b[K");
    this.#isShown = false;
  }

  /** Runs steps, which yield the share of the work that is done, and returns their result. */
  finish<Result>(text: string, steps: Generator<number, Result>): Result {
    for (;;) {
      const step = steps.next();
      if (step.done === true) {
        this.clear();
        return step.value;
      }
      this.show(text, step.value);
    }
  }
}

export interface ReadTraffic {
  readonly timelines: Timelines;
  /** The lines and keys that were read, for people. */
  readonly lines: readonly string[];
  /** The facts of `lines`, for programs. */
  readonly facts: Readonly<Record<string, unknown>>;
  /** The parts of the key, as the configuration writes them. */
  readonly keyParts: readonly string[];
  /** Those of `keyParts` that are fields of a log and not key parts. */
  readonly keyFields: readonly string[];
  /** Which requests of a log are read; null for samples. */
  readonly filter: LogFilter | null;
  /** The sampled policy; null for a log. */
  readonly policy: SampledPolicy | null;
}

interface SampledPolicy {
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
    const { readLogTraffic } = await import("./input-log.ts");
    return readLogTraffic(choice, progress);
  }
  // The reader of the settings loads wrangler, which takes a second.
  const { readSampledTraffic } = await import("./input-samples.ts");
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
