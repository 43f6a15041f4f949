/** Reads the samples of a deployment: the lines of `GET /api/samples`. */
import { isCount, isInstant } from "../../strategies/integers.ts";
import { isRecord } from "../../validation/json.ts";
import {
  type ArrivalOutcome,
  arrivalOutcomes,
  type Timelines,
  TimelinesBuilder,
  type TimelinesSource,
} from "./timelines.ts";

const dayMs = 86_400_000;

/** The first line. */
export interface SamplesHeader {
  readonly policy: string;
  readonly fromMs: number;
  readonly toMs: number;
  /** The setting `SAMPLE` of the period, such as "1/64"; "off" without samples. */
  readonly sample: string;
  /** One key in this many is sampled. */
  readonly oneKeyIn: number;
  /**
   * Arrivals of sampled keys: those recorded (`arrivals`), those that did not fit into a beat (`lost`), and those that
   * did not fit into storage (`dropped`).
   */
  readonly arrivals: number;
  readonly lost: number;
  readonly dropped: number;
  /** All decisions of the policy in the period, of sampled keys or not; null when unknown. */
  readonly requests: number | null;
  /** The share of the arrivals of sampled keys that was recorded. */
  readonly coverage: number;
  /** When the control plane stored the latest samples, and how long ago that is; null before the first. */
  readonly storedAtMs: number | null;
  readonly ageMs: number | null;
}

export interface Samples {
  readonly header: SamplesHeader;
  /** The arrivals that the policy's own limits decided. */
  readonly timelines: Timelines;
  /**
   * `timelines`, and also the arrivals that overrides and key rules decided. The same object as `timelines` when there
   * are none.
   */
  readonly withOtherLimits: Timelines;
}

/** A line that cannot be read. */
export class SamplesProblem extends Error {
  override readonly name = "SamplesProblem";
}

interface FoundSettlement {
  readonly key: string;
  readonly spentAtMs: number;
  readonly cost: number;
  readonly settledAtMs: number;
  readonly actualCost: number;
}

interface UnsettledArrival {
  readonly arrival: number;
  readonly ttlMs: number;
}

const exampleHeader = '{"policy": "api", "from": …, "to": …, "sample": "1/64", …}';
const exampleArrival = '[1767225600000, 1, "allowed"]';
const exampleSettlement = "[1767225600000, 1, 1767225601000, 0]";

/** Takes one line after the other. Keys may repeat, and a settlement may come before or after its arrival. */
export class SamplesReader {
  /** Lines that were read. */
  lines = 0;
  #header: SamplesHeader | null = null;
  readonly #own = new SampledArrivals();
  readonly #other = new SampledArrivals();
  readonly #settlements: FoundSettlement[] = [];

  /** The share of the arrivals that was read, from 0 to 1. */
  get share(): number {
    const all = this.#header?.arrivals ?? 0;
    return all === 0 ? 0 : Math.min(1, this.arrivals / all);
  }

  /** Arrivals that were read. */
  get arrivals(): number {
    return this.#own.builder.arrivals + this.#other.builder.arrivals;
  }

  /**
   * @param text a line without its line break; an empty line is skipped
   * @throws SamplesProblem if the line is not as documented. Unknown fields are ignored
   */
  line(text: string): void {
    this.lines++;
    if (text.trim() === "") return;
    const value = this.#parsed(text);
    if (this.#header === null) this.#header = this.#readHeader(value);
    else this.#readKey(value);
  }

  /** @throws SamplesProblem without a first line */
  finish(): Samples {
    const header = this.#header;
    if (header === null) throw this.#problem(exampleHeader, undefined);
    for (const settlement of this.#settlements) {
      if (!this.#own.settle(settlement)) this.#other.settle(settlement);
    }
    const { fromMs, toMs, oneKeyIn, requests, lost } = header;
    const otherLimitsArrivals = this.#other.builder.arrivals;
    // Storage drops the oldest arrivals first, so the recorded time begins after the dropped ones.
    const firstMs = Math.min(this.#own.firstMs, this.#other.firstMs);
    const recordedFromMs = firstMs === Infinity ? fromMs : Math.max(fromMs, firstMs);
    const source: TimelinesSource = {
      fromMs: recordedFromMs,
      toMs,
      oneKeyIn,
      requests,
      lostArrivals: lost,
      otherLimitsArrivals,
      keptMs: dayMs,
    };
    const timelines = this.#own.builder.finish(source);
    if (otherLimitsArrivals === 0) return { header, timelines, withOtherLimits: timelines };
    const others = this.#other.builder.finish(source);
    return { header, timelines, withOtherLimits: joined(timelines, others, source) };
  }

  #parsed(text: string): Readonly<Record<string, unknown>> {
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      throw this.#problem("a line of JSON; is the answer complete?", text);
    }
    if (!isRecord(value)) throw this.#problem("an object", value);
    return value;
  }

  #readHeader(line: Readonly<Record<string, unknown>>): SamplesHeader {
    const { policy, sample, coverage } = line;
    const [fromMs, toMs] = [instantOf(line["from"]), instantOf(line["to"])];
    const [, denominator] = /^1\/([1-9]\d{0,8})$/.exec(String(sample)) ?? [];
    const isSample = sample === "off" || denominator !== undefined;
    if (typeof policy !== "string" || fromMs === null || toMs === null || !isSample) {
      throw this.#problem(`a first line such as ${exampleHeader}`, line);
    }
    const countOf = (name: string): number => (isCount(line[name]) ? line[name] : 0);
    return {
      policy,
      fromMs,
      toMs,
      sample: String(sample),
      oneKeyIn: Number(denominator ?? 1),
      arrivals: countOf("arrivals"),
      lost: countOf("lost"),
      dropped: countOf("dropped"),
      requests: isCount(line["requests"]) ? line["requests"] : null,
      coverage: typeof coverage === "number" ? coverage : 1,
      storedAtMs: instantOf(line["storedAt"]),
      ageMs: isCount(line["ageMs"]) ? line["ageMs"] : null,
    };
  }

  #readKey({ id, arrivals, settlements, hasOtherLimits }: Readonly<Record<string, unknown>>): void {
    if (typeof id !== "string") throw this.#problem('an "id", which is a partition key', id);
    const part = hasOtherLimits === true ? this.#other : this.#own;
    for (const arrival of this.#list("arrivals", arrivals)) {
      if (!part.add(id, arrival)) throw this.#problem(`an arrival such as ${exampleArrival}`, arrival);
    }
    for (const written of this.#list("settlements", settlements)) {
      const settlement = settlementOf(id, written);
      if (settlement === null) {
        throw this.#problem(`a settlement such as ${exampleSettlement}`, written);
      }
      this.#settlements.push(settlement);
    }
  }

  #list(name: string, value: unknown): readonly unknown[] {
    if (value === undefined) return [];
    if (!Array.isArray(value)) throw this.#problem(`a list "${name}"`, value);
    return value;
  }

  #problem(expected: string, found: unknown): SamplesProblem {
    const text = found === undefined ? "nothing" : JSON.stringify(found);
    const quoted = text.length > 200 ? `${text.slice(0, 200)}…` : text;
    return new SamplesProblem(`line ${this.lines} of the samples: expected ${expected}, got ${quoted}`);
  }
}

/** Arrivals, and which of them still lack a settlement. */
class SampledArrivals {
  readonly builder = new TimelinesBuilder();
  firstMs = Infinity;
  readonly #unsettled = new Map<string, UnsettledArrival[]>();

  /** Returns whether the arrival is valid. */
  add(key: string, written: unknown): boolean {
    if (!Array.isArray(written)) return false;
    const [atMs, cost, name, ttlMs = 0, settledAtMs = null, settledCost = cost]: unknown[] = written;
    const isValid = isInstant(atMs) && isCount(cost) && typeof name === "string" && isCount(ttlMs);
    const isSettled = settledAtMs === null || isInstant(settledAtMs);
    if (!isValid || !isSettled || !isCount(settledCost)) return false;
    this.firstMs = Math.min(this.firstMs, atMs);
    const arrival = this.builder.add(key, {
      atMs,
      cost,
      outcome: outcomeOf(name),
      ...(ttlMs > 0 && { reservation: { ttlMs, settledAtMs, settledCost } }),
    });
    if (ttlMs === 0 || settledAtMs !== null || name !== "allowed") return true;
    const place = placeOf(key, atMs, cost);
    const others = this.#unsettled.get(place);
    if (others === undefined) this.#unsettled.set(place, [{ arrival, ttlMs }]);
    else others.push({ arrival, ttlMs });
    return true;
  }

  /** Returns whether an arrival for this settlement was found. */
  settle({ key, spentAtMs, cost, settledAtMs, actualCost }: FoundSettlement): boolean {
    const found = this.#unsettled.get(placeOf(key, spentAtMs, cost))?.shift();
    if (found === undefined) return false;
    const { arrival, ttlMs } = found;
    this.builder.setReservation(arrival, { ttlMs, settledAtMs, settledCost: actualCost });
    return true;
  }
}

const placeOf = (key: string, atMs: number, cost: number): string => `${key} ${atMs} ${cost}`;

/** An outcome that a later version adds is unknown. */
const outcomeOf = (name: string): ArrivalOutcome => arrivalOutcomes.find((outcome) => outcome === name) ?? "unknown";

function settlementOf(key: string, written: unknown): FoundSettlement | null {
  if (!Array.isArray(written)) return null;
  const [spentAtMs, cost, settledAtMs, actualCost]: unknown[] = written;
  const isValid = isInstant(spentAtMs) && isCount(cost) && isInstant(settledAtMs);
  return isValid && isCount(actualCost) ? { key, spentAtMs, cost, settledAtMs, actualCost } : null;
}

/** An instant as text or in milliseconds; null for anything else. */
function instantOf(value: unknown): number | null {
  const atMs = typeof value === "string" ? Date.parse(value) : value;
  return isInstant(atMs) ? atMs : null;
}

/** The arrivals of both timelines. Those of each key are in order of time. */
function joined(one: Timelines, other: Timelines, source: TimelinesSource): Timelines {
  const builder = new TimelinesBuilder();
  for (const timelines of [one, other]) {
    for (const index of timelines.keys.keys()) builder.addKey(timelines, index);
  }
  return builder.finish(source);
}
