/**
 * `/api/samples`: sampled traffic as lines of JSON. Chunks are read, decoded and sent one after the other, as fast as the
 * caller reads: the isolate has one page of them in memory.
 */
import * as v from "valibot";
import {
  type SampledArrival,
  type SampledEvent,
  type SampledKeys,
  countArrivals,
  decodeBatches,
  decodeSamples,
} from "../control/sample-codec.ts";
import { isSampledKey } from "../control/isolate/traffic-sample.ts";
import type { SampleChunk, SampleIndex } from "../control/statistics-calls.ts";
import { errorText, report } from "../observability/events.ts";
import { isolationFields } from "./console.ts";
import {
  type AdminContext,
  type AuthorizedCall,
  CallRefused,
  fieldsRefused,
  instant,
  instantText,
  policyNameText,
  policyOf,
  queryIn,
} from "./context.ts";
import type { ArrivalRow, SampleLine, SamplesHeaderLine, SettlementRow } from "./wire.ts";

const dayMs = 86_400_000;
/** The most bytes of chunks that one call of the object returns. A larger chunk is returned alone. */
const mostPageBytes = 512 * 1_024;

const samplesQuery = {
  policy: policyNameText,
  from: v.optional(instant),
  to: v.optional(instant),
};

/** The default period is the last 24 hours. */
export async function readSamples(context: AdminContext, c: AuthorizedCall): Promise<Response> {
  const { policy, from, to } = queryIn(c, samplesQuery);
  const nowMs = context.clock.now();
  const toMs = to ?? nowMs;
  const fromMs = from ?? toMs - dayMs;
  if (fromMs >= toMs || toMs - fromMs > dayMs) {
    throw fieldsRefused([{ field: "from", accepted: "an instant before to, by at most 24 hours" }]);
  }
  policyOf(context, policy);
  const stored = await context.controlPlane.call((stub) => stub.samples({ policy, fromMs, toMs }));
  const { sampleOneKeyIn } = context;
  const index = sampleOneKeyIn === null ? { chunks: [], open: [], dropped: 0 } : stored;
  const sizes = [...index.chunks, ...index.open].map((part) => part.oneKeyIn);
  // The answer uses the smallest sample of the period, because each larger sample contains its keys.
  const oneKeyIn = sizes.length > 0 ? Math.max(...sizes) : (sampleOneKeyIn ?? 1);
  const samples = new PolicySamples(context, policy, index, { fromMs, toMs, oneKeyIn });
  const counts = await samples.counts();
  const { storedAtMs, requests } = stored;
  const header: SamplesHeaderLine = {
    policy,
    from: instantText(fromMs),
    to: instantText(toMs),
    sample: sampleOneKeyIn === null ? "off" : `1/${oneKeyIn}`,
    ...counts,
    requests,
    coverage: coverageOf(counts),
    storedAt: storedAtMs === null ? null : instantText(storedAtMs),
    ageMs: storedAtMs === null ? null : Math.max(0, nowMs - storedAtMs),
  };
  return new Response(streamOf(samples.lines(header)), {
    headers: { "Content-Type": "application/x-ndjson", "Cache-Control": "no-store", ...isolationFields },
  });
}

type SampleCounts = Pick<SamplesHeaderLine, "arrivals" | "lost" | "dropped">;

/** The share of the sampled keys' arrivals that the answer contains. */
export function coverageOf({ arrivals, lost, dropped }: SampleCounts): number {
  const all = arrivals + lost + dropped;
  return all === 0 ? 1 : arrivals / all;
}

type SamplesOfRange = Pick<SampleIndex, "chunks" | "open" | "dropped">;

/** The stored samples of a policy within a range. */
export class PolicySamples {
  readonly #context: AdminContext;
  readonly #policy: string;
  readonly #index: SamplesOfRange;
  readonly #range: SampleRange;

  constructor(context: AdminContext, policy: string, index: SamplesOfRange, range: SampleRange) {
    this.#context = context;
    this.#policy = policy;
    this.#index = index;
    this.#range = range;
  }

  /** A chunk that lies only partly in the range is decoded to count its arrivals. */
  async counts(): Promise<SampleCounts> {
    const { chunks, open, dropped } = this.#index;
    const whole = chunks.filter((chunk) => this.#isWhole(chunk));
    let arrivals = whole.reduce((sum, chunk) => sum + chunk.arrivals, 0);
    const others = chunks.filter((chunk) => !this.#isWhole(chunk));
    for await (const keys of this.#decoded(others)) arrivals += countArrivals(keys);
    let lost = [...chunks, ...open].reduce((sum, part) => sum + part.lost * this.#share(part), 0);
    for (const part of open) {
      const keys = decodeBatches(part.events);
      arrivals += countArrivals(inRange(keys, this.#range));
      // The arrivals of unreadable batches count as lost.
      lost += Math.max(0, part.arrivals - countArrivals(keys));
    }
    return { arrivals, lost: Math.round(lost), dropped };
  }

  /** In no order. */
  async arrivalsOf(key: string): Promise<readonly SampledArrival[]> {
    const events = [...(this.#openKeys().get(key) ?? [])];
    for await (const keys of this.#decoded(this.#index.chunks)) events.push(...(keys.get(key) ?? []));
    return events.filter((event) => event.kind === "arrival");
  }

  async *lines(header: SamplesHeaderLine): AsyncGenerator<string> {
    yield `${JSON.stringify(header)}\n`;
    try {
      for await (const keys of this.#decoded(this.#index.chunks)) {
        // Skips empty texts: the stream must not have empty chunks.
        if (keys.size > 0) yield sampleLines(keys);
      }
    } catch (error) {
      // The status is already sent, so the answer breaks off: the caller must not take it for complete.
      if (!(error instanceof CallRefused)) {
        report({ event: "internal-error", error: errorText(error) });
      }
      throw error;
    }
    const keys = this.#openKeys();
    if (keys.size > 0) yield sampleLines(keys);
  }

  /** The events of chunks within the range. A chunk that was dropped meanwhile is left out. */
  async *#decoded(chunks: readonly SampleChunk[]): AsyncGenerator<SampledKeys> {
    for (const ids of pagesOf(chunks)) {
      // oxlint-disable-next-line no-await-in-loop -- one page in memory
      const bodies = await this.#context.controlPlane.call((stub) => stub.sampleChunks(this.#policy, ids));
      for (const body of bodies) yield inRange(decodeSamples(new Uint8Array(body)), this.#range);
    }
  }

  #openKeys(): SampledKeys {
    return inRange(decodeBatches(this.#index.open.flatMap(({ events }) => events)), this.#range);
  }

  #isWhole({ fromMs, toMs, oneKeyIn }: SampleChunk): boolean {
    const range = this.#range;
    return fromMs >= range.fromMs && toMs < range.toMs && oneKeyIn === range.oneKeyIn;
  }

  /** The share of a part's arrivals that lies in the range, if the arrivals are evenly distributed. */
  #share({ fromMs, toMs, oneKeyIn }: Omit<SampleChunk, "id" | "bytes">): number {
    const range = this.#range;
    const inMs = Math.min(toMs, range.toMs - 1) - Math.max(fromMs, range.fromMs) + 1;
    return (Math.max(0, inMs) / (toMs - fromMs + 1)) * (oneKeyIn / range.oneKeyIn);
  }
}

function pagesOf(chunks: readonly SampleChunk[]): number[][] {
  const pages: number[][] = [];
  let bytes = mostPageBytes;
  for (const chunk of chunks) {
    if (bytes + chunk.bytes > mostPageBytes) {
      pages.push([]);
      bytes = 0;
    }
    bytes += chunk.bytes;
    pages.at(-1)?.push(chunk.id);
  }
  return pages;
}

/** Produces each text only after the caller has read the previous one. */
function streamOf(texts: AsyncGenerator<string>): ReadableStream<Uint8Array> {
  const utf8 = new TextEncoder();
  return new ReadableStream(
    {
      async pull(controller) {
        const { done, value } = await texts.next();
        if (done === true) controller.close();
        else controller.enqueue(utf8.encode(value));
      },
      async cancel() {
        await texts.return(undefined);
      },
    },
    { highWaterMark: 0 },
  );
}

/** The period and the size of the sample in an answer. */
interface SampleRange {
  /** Inclusive. */
  readonly fromMs: number;
  /** Exclusive. */
  readonly toMs: number;
  /** The answer contains only the keys that a sample of one key in this many contains. */
  readonly oneKeyIn: number;
}

/** The arrivals in the range, and their settlements before its end. */
function inRange(keys: SampledKeys, { fromMs, toMs, oneKeyIn }: SampleRange): SampledKeys {
  const isIn = (event: SampledEvent): boolean => {
    const arrivedAtMs = event.kind === "arrival" ? event.atMs : event.spentAtMs;
    return arrivedAtMs >= fromMs && arrivedAtMs < toMs && event.atMs < toMs;
  };
  return new Map(
    [...keys]
      .filter(([key]) => isSampledKey(key, oneKeyIn))
      .map(([key, events]) => [key, events.filter(isIn)] as const)
      .filter(([, events]) => events.length > 0),
  );
}

/** Each line ends with a line break. */
const sampleLines = (keys: SampledKeys): string => [...keys].flatMap(([id, events]) => linesOfKey(id, events)).join("");

function linesOfKey(id: string, events: readonly SampledEvent[]): string[] {
  const own: ArrivalRow[] = [];
  const withOtherLimits: ArrivalRow[] = [];
  const unsettled = new Map<string, ArrivalRow[]>();
  for (const event of events) {
    if (event.kind !== "arrival") continue;
    const row = rowOf(event, unsettled);
    (event.hasOtherLimits ? withOtherLimits : own).push(row);
  }
  const settlements: SettlementRow[] = [];
  for (const event of events) {
    if (event.kind !== "settlement") continue;
    const { atMs, spentAtMs, cost, actualCost } = event;
    const row = unsettled.get(placeOf(spentAtMs, cost))?.shift();
    if (row === undefined) settlements.push([spentAtMs, cost, atMs, actualCost]);
    else [row[4], row[5]] = [atMs, actualCost];
  }
  const lines: SampleLine[] = [];
  if (own.length > 0 || settlements.length > 0) {
    lines.push({ id, arrivals: own, ...(settlements.length > 0 && { settlements }) });
  }
  if (withOtherLimits.length > 0) {
    lines.push({ id, arrivals: withOtherLimits, hasOtherLimits: true });
  }
  return lines.map((line) => `${JSON.stringify(line)}\n`);
}

const placeOf = (atMs: number, cost: number): string => `${atMs} ${cost}`;

/** @param unsettled receives the rows of arrivals that may be settled */
function rowOf({ atMs, cost, outcome, ttlMs }: SampledArrival, unsettled: Map<string, ArrivalRow[]>): ArrivalRow {
  if (ttlMs === 0) return [atMs, cost, outcome];
  const row: ArrivalRow = [atMs, cost, outcome, ttlMs, null, cost];
  // The object reserves only what it allows.
  if (outcome !== "allowed") return row;
  const place = placeOf(atMs, cost);
  unsettled.set(place, [...(unsettled.get(place) ?? []), row]);
  return row;
}
