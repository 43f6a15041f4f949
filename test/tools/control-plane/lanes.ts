/**
 * An even load on isolates of one workerd process. The load has lanes that receive their requests at the same instants,
 * so that a slow machine slows all lanes. Lanes are compared by ratios, and two lanes without a control plane show the
 * noise.
 */
import { setTimeout } from "node:timers/promises";

export interface Lane {
  readonly name: string;
  readonly urls: readonly URL[];
}

export interface Sent {
  /** Since the start of the load. */
  readonly atMs: number;
  readonly latencyMs: number;
  /** 0 when no response arrived. */
  readonly status: number;
}

/** The time between two requests of a lane. */
const everyMs = 40;
/**
 * An even number: the two isolates of a lane use different keys, so that newer rules reach each isolate by its own
 * beats.
 */
const keys = 4;

export class Load {
  readonly lanes: readonly Lane[];
  readonly #sent = new Map<string, Sent[]>();
  readonly #started = new Map<string, number>();
  /** The last `RateLimit-Policy` that each isolate has returned. */
  readonly shown = new Map<string, string>();
  readonly #startedMs = performance.now();
  readonly #inFlight = new Set<Promise<void>>();
  readonly #loop: Promise<void>;
  #isOver = false;

  private constructor(lanes: readonly Lane[]) {
    this.lanes = lanes;
    this.#loop = this.#run();
  }

  /**
   * Starts the load after each isolate has decided each key once, since the first decision creates the key's object.
   */
  static async start(lanes: readonly Lane[]): Promise<Load> {
    for (const { name, urls } of lanes) {
      for (const url of urls) {
        for (let number = 0; number < keys; number++) {
          // oxlint-disable-next-line no-await-in-loop
          await sendTo(url, `${name}-${number}`);
        }
      }
    }
    return new Load(lanes);
  }

  get elapsedMs(): number {
    return performance.now() - this.#startedMs;
  }

  /** The number of requests sent to a lane so far. */
  started(lane: string): number {
    return this.#started.get(lane) ?? 0;
  }

  sent(lane: string): readonly Sent[] {
    return this.#sent.get(lane) ?? [];
  }

  /** Ends the load, and waits for the responses. */
  async end(): Promise<void> {
    this.#isOver = true;
    await this.#loop;
    await Promise.all(this.#inFlight);
  }

  async #run(): Promise<void> {
    for (let tick = 0; !this.#isOver; tick++) {
      for (const [place] of this.lanes.entries()) {
        // The lanes take turns at being the first.
        const lane = this.lanes[(place + tick) % this.lanes.length];
        if (lane !== undefined) this.#start(lane, tick);
      }
      // oxlint-disable-next-line no-await-in-loop
      await setTimeout(Math.max(0, (tick + 1) * everyMs - this.elapsedMs));
    }
  }

  #start({ name, urls }: Lane, tick: number): void {
    const url = urls[tick % urls.length];
    if (url === undefined) return;
    this.#started.set(name, this.started(name) + 1);
    const request = this.#send(name, url, `${name}-${tick % keys}`);
    this.#inFlight.add(request);
    void request.finally(() => this.#inFlight.delete(request));
  }

  async #send(lane: string, url: URL, key: string): Promise<void> {
    const atMs = this.elapsedMs;
    let status = 0;
    try {
      const response = await sendTo(url, key);
      ({ status } = response);
      this.shown.set(url.href, response.headers.get("ratelimit-policy") ?? "");
    } catch {
      // A failed request is counted with the status 0.
    }
    const all = this.#sent.get(lane) ?? [];
    this.#sent.set(lane, all);
    all.push({ atMs, latencyMs: this.elapsedMs - atMs, status });
  }
}

/** Every policy of a lane matches this path. */
async function sendTo(url: URL, key: string): Promise<Response> {
  const response = await fetch(new URL("/traffic", url), { headers: { "x-key": key } });
  await response.arrayBuffer();
  return response;
}

/** The number of requests that `Load.start` sends to each lane before the load. */
export const warmUp = ({ urls }: Lane): number => keys * urls.length;

/** A quantile of the latencies, in milliseconds. */
export function latencyAt(quantile: number, sent: readonly Sent[]): number {
  const sorted = sent.map(({ latencyMs }) => latencyMs).toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(quantile * sorted.length))] ?? Number.NaN;
}

/** The requests of a period. */
export const within = (sent: readonly Sent[], fromMs: number, toMs: number): readonly Sent[] =>
  sent.filter(({ atMs }) => atMs >= fromMs && atMs < toMs);
