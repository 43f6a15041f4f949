/**
 * A site that records the traffic of every key: the Worker's app, the objects of the limiter and the control plane in
 * one process with one virtual clock. Its samples are read through the admin API.
 */
import { onTestFinished, vi } from "vitest";
import { createApp } from "../../../src/app.ts";
import { type Config, parseConfig } from "../../../src/policy/vars/config.ts";
import { Plane } from "../../../src/control/object/plane.ts";
import type { BeatCall } from "../../../src/control/protocol.ts";
import type { SamplesQuery } from "../../../src/control/statistics-calls.ts";
import { sleep } from "../../../src/limiter/clock.ts";
import { type Samples, SamplesReader } from "../../../src/advisor/replay/read-samples.ts";
import { MemoryNamespace, MemoryObjects } from "../../../src/sdk/testing/memory-objects.ts";
import { VirtualClock } from "../../../src/sdk/testing/virtual-clock.ts";
import { provideWorkerdGlobals } from "../../differential/node-platform.ts";
import { MemorySql } from "../../fakes/memory-sql.ts";

provideWorkerdGlobals();

const token = "the-token-of-the-recorded-site";

/** The answer to a check, or to a request of the proxy. */
export interface RecordedAnswer {
  readonly allowed: boolean;
  /** The id of the reservation; null without one. */
  readonly id: string | null;
}

export class RecordedSite {
  readonly clock: VirtualClock;
  readonly config: Config;
  readonly #app: ReturnType<typeof createApp>;
  /** How long the origin takes to respond, and the cost that its next response reports. */
  origin = (): { readonly takesMs: number; readonly cost?: number } => ({ takesMs: 0 });

  constructor(policies: readonly object[], startAtMs: number) {
    this.clock = new VirtualClock(startAtMs);
    const variables = {
      KEY_SECRET: "a secret of at least 32 characters",
      ORIGIN: "https://origin.example",
      CHECK_TOKENS: token,
      ADMIN_TOKENS: token,
      SAMPLE: "1/1",
      POLICIES: policies,
    };
    this.config = parseConfig(variables);
    const objects = new MemoryNamespace(new MemoryObjects(this.clock), (_, reply) => reply());
    const bindings = { RATE_LIMITER: objects, CONTROL_PLANE: this.#controlPlane() };
    this.#app = createApp({ ...variables, ...bindings } as unknown as Env);
    const origin = vi.spyOn(globalThis, "fetch").mockImplementation(async () => {
      const { takesMs, cost } = this.origin();
      if (takesMs > 0) await sleep(this.clock, takesMs);
      const headers = cost === undefined ? {} : { "X-Cost": String(cost) };
      return new Response(null, { headers });
    });
    onTestFinished(() => origin.mockRestore());
  }

  #controlPlane(): object {
    const storage = new MemorySql();
    const observers = {
      alerts: null,
      dataset: null,
      sockets: { sockets: () => [], accept: () => new Response() },
      waitUntil: () => undefined,
    };
    const plane = new Plane({
      storage,
      clock: this.clock,
      push: () => Promise.reject(new Error("no rules are expected")),
      randomId: () => crypto.randomUUID(),
      observers,
    });
    const methods = {
      beat: async (call: BeatCall) => plane.beat(structuredClone(call)),
      samples: async (query: SamplesQuery) => plane.samples(query),
      sampleChunks: async (policy: string, ids: readonly number[]) => plane.sampleChunks(policy, ids),
    };
    return { getByName: () => methods };
  }

  /** Charges a key with a request to `/check`. */
  async check(policy: string, key: string, cost: number): Promise<RecordedAnswer> {
    return this.#post("", { policy, key, cost });
  }

  async reserve(
    policy: string,
    key: string,
    reservation: { readonly cost: number; readonly ttlMs: number },
  ): Promise<RecordedAnswer> {
    return this.#post("/reserve", { policy, key, ...reservation });
  }

  async settle(id: string, cost: number): Promise<void> {
    await this.#post("/settle", { id, cost });
  }

  /** Sends a request through the proxy. */
  async request(address: string, path = "/"): Promise<RecordedAnswer> {
    const headers = { "CF-Connecting-IP": address };
    const response = await this.#fetch(path, { headers });
    return { allowed: response.status === 200, id: null };
  }

  /** The samples of a policy, once this number of arrivals is stored. */
  async samples(policy: string, arrivals: number): Promise<Samples> {
    for (let attempt = 0; attempt < 10; attempt++) {
      // Sends enough requests to trigger a beat. They charge nothing.
      for (let each = 0; each < 20; each++) {
        // oxlint-disable-next-line no-await-in-loop
        await this.#post("", { limits: "1/s", key: "nobody", cost: 0 });
      }
      // oxlint-disable-next-line no-await-in-loop
      await this.clock.advance(31_000);
      // oxlint-disable-next-line no-await-in-loop
      const samples = await this.#readSamples(policy);
      if (samples.header.arrivals >= arrivals) return samples;
    }
    throw new Error(`${arrivals} arrivals of ${policy} were not stored in time`);
  }

  async #readSamples(policy: string): Promise<Samples> {
    const headers = { Authorization: `Bearer ${token}` };
    const response = await this.#fetch(`/_headgate/api/samples?policy=${policy}`, { headers });
    const reader = new SamplesReader();
    const text = await response.text();
    if (response.status !== 200) throw new Error(`${response.status} ${text}`);
    for (const line of text.split("\n")) reader.line(line);
    return reader.finish();
  }

  async #post(path: string, body: object): Promise<RecordedAnswer> {
    const response = await this.#fetch(`/check${path}`, {
      method: "POST",
      headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    const text = await response.text();
    if (response.status !== 200) throw new Error(`${response.status} ${text}`);
    const { allowed = true, id = null } = JSON.parse(text) as Partial<RecordedAnswer>;
    return { allowed, id };
  }

  async #fetch(path: string, init: RequestInit): Promise<Response> {
    const request = new Request(new URL(path, "https://headgate.example"), init);
    const waitUntil = (work: Promise<unknown>): void => void work.catch(() => undefined);
    const context = { waitUntil, passThroughOnException: () => undefined };
    return this.#app.fetch(request, {} as never, context as never);
  }
}
