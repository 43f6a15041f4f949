/** `/api/samples`: the lines of sampled traffic, over the store of the control plane. */
import { Hono } from "hono";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { parseConfig } from "../../src/policy/vars/config.ts";
import { StatisticsStore } from "../../src/control/object/statistics.ts";
import type { SampleBatch } from "../../src/control/protocol.ts";
import { isSampledKey } from "../../src/control/isolate/traffic-sample.ts";
import type { SampledEvent } from "../../src/control/sample-codec.ts";
import { type AdminContext, type Authenticated, answerRefusal } from "../../src/admin/context.ts";
import { ControlPlaneCaller, type ControlPlaneStub } from "../../src/admin/control-plane-caller.ts";
import { readSamples } from "../../src/admin/sample-routes.ts";
import { SamplesReader } from "../../src/advisor/replay/read-samples.ts";
import { batch, beat, counts } from "../control/object/batches.ts";
import { arrival, sampleBatch } from "../control/object/sample-batches.ts";
import { partitionKeys } from "../control/key-streams.ts";
import { TestClock } from "../fakes/isolate.ts";
import { MemorySql } from "../fakes/memory-sql.ts";
import { adminContract, expectContract } from "../http/contract.ts";

const logged: string[] = [];
beforeEach(() => {
  vi.spyOn(console, "error").mockImplementation((text) => void logged.push(String(text)));
});
afterEach(() => {
  logged.length = 0;
  vi.restoreAllMocks();
});

const startMs = Date.UTC(2026, 10, 22, 10);
const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const [one = "", other = ""] = partitionKeys(500).filter((key) => isSampledKey(key, 64));

type Line = Readonly<Record<string, unknown>>;

/** A control plane with this store, and the admin API in front of it. */
function plane({ sample = "1/64" } = {}) {
  const clock = new TestClock();
  clock.nowMs = startMs;
  const storage = new MemorySql();
  const store = new StatisticsStore(storage, startMs);
  const config = parseConfig({
    KEY_SECRET: "s",
    POLICIES: [{ name: "api", key: "ip", limits: "5/minute" }],
    SAMPLE: sample,
  });
  let seq = 0;
  const stub = {
    samples: vi.fn<ControlPlaneStub["samples"]>(async (query) => store.samples(query)),
    sampleChunks: vi.fn<ControlPlaneStub["sampleChunks"]>(async (policy, ids) => store.sampleChunks(policy, ids)),
  };
  const controlPlane = new ControlPlaneCaller({ getByName: () => stub as object as ControlPlaneStub }, clock);
  const { policies: configured, sampleOneKeyIn } = config;
  const parts = { controlPlane, clock, policies: configured, sampleOneKeyIn };
  const context = parts as object as AdminContext;
  const app = new Hono<Authenticated>();
  app.onError(answerRefusal);
  app.get("/_headgate/api/samples", (c) => readSamples(context, c));
  const send = async (query: string): Promise<Response> =>
    app.request(`http://localhost/_headgate/api/samples?${query}`);
  return {
    clock,
    store,
    storage,
    stub,
    send,
    /** Stores samples of the policy `api` with 10 allowed decisions. */
    record: (api: SampleBatch): void => {
      const policies = { api: counts({ outcomes: { allowed: 10 } }) };
      store.record(beat([{ ...batch(++seq, 0), policies, samples: { api } }]), clock.nowMs);
    },
    /** Lets an hour pass, so that the samples become a chunk. */
    close: (): void => {
      clock.nowMs += hourMs;
      store.write(clock.nowMs);
    },
    /** The lines of an answer. A response of the server is compared with the OpenAPI document. */
    lines: async (query = "policy=api"): Promise<[header: Line, ...keys: Line[]]> => {
      const response = await send(query);
      expect(response.status).toBe(200);
      const url = new URL(`http://localhost/_headgate/api/samples?${query}`);
      const sent = { method: "GET", url, body: undefined };
      await expectContract("/_headgate/api", sent, response, adminContract);
      const lines = (await response.text()).trimEnd().split("\n");
      return lines.map((line) => JSON.parse(line) as Line) as [Line, ...Line[]];
    },
  };
}

const reserved = (atMs: number): SampledEvent => arrival(atMs, { ttlMs: 60_000, cost: 5 });
const settlement = (spentAtMs: number, atMs: number): SampledEvent => ({
  kind: "settlement",
  atMs,
  spentAtMs,
  cost: 5,
  actualCost: 2,
});

describe("the answer", () => {
  it("the first line describes the sample, and each further line has the arrivals of one key", async () => {
    const { clock, record, lines } = plane();
    record(
      sampleBatch(
        {
          [one]: [arrival(startMs - 2_000), arrival(startMs - 1_000, { outcome: "denied" })],
          [other]: [arrival(startMs - 3_000, { cost: 7, outcome: "fallback-local" })],
        },
        { lost: 1 },
      ),
    );
    clock.nowMs += 5_000;
    expect(await lines()).toEqual([
      {
        policy: "api",
        from: "2026-11-21T10:00:05.000Z",
        to: "2026-11-22T10:00:05.000Z",
        sample: "1/64",
        arrivals: 3,
        lost: 1,
        dropped: 0,
        requests: 10,
        coverage: 0.75,
        storedAt: "2026-11-22T10:00:00.000Z",
        ageMs: 5_000,
      },
      {
        id: one,
        arrivals: [
          [startMs - 2_000, 1, "allowed"],
          [startMs - 1_000, 1, "denied"],
        ],
      },
      { id: other, arrivals: [[startMs - 3_000, 7, "fallback-local"]] },
    ]);
  });

  it("the answer is streamed as lines of JSON, and no cache may store it", async () => {
    const response = await plane().send("policy=api");
    expect(response.headers.get("Content-Type")).toBe("application/x-ndjson");
    expect(response.headers.get("Cache-Control")).toBe("no-store");
  });

  it("without samples, the answer has only the first line, which states full coverage and no age", async () => {
    const [header, ...keys] = await plane().lines();
    expect(keys).toEqual([]);
    expect(header).toMatchObject({ arrivals: 0, coverage: 1, storedAt: null, ageMs: null });
  });

  it("arrivals that an override or a key rule decided have their own line", async () => {
    const { record, lines } = plane();
    const overridden = arrival(startMs - 2, { hasOtherLimits: true });
    record(sampleBatch({ [one]: [overridden, arrival(startMs - 1)] }));
    const [, ...keys] = await lines();
    expect(keys).toEqual([
      { id: one, arrivals: [[startMs - 1, 1, "allowed"]] },
      { id: one, arrivals: [[startMs - 2, 1, "allowed"]], hasOtherLimits: true },
    ]);
  });

  it("an allowed reservation has its settlement if both are in one chunk", async () => {
    const { record, lines, clock } = plane();
    const denied = arrival(startMs - 9, { ttlMs: 60_000, cost: 5, outcome: "denied" });
    record(sampleBatch({ [one]: [denied, reserved(startMs - 9), reserved(startMs - 9)] }));
    record(sampleBatch({ [one]: [settlement(startMs - 9, startMs + 500)] }));
    clock.nowMs += 1_000;
    const [, ...keys] = await lines();
    expect(keys).toEqual([
      {
        id: one,
        arrivals: [
          [startMs - 9, 5, "denied", 60_000, null, 5],
          [startMs - 9, 5, "allowed", 60_000, startMs + 500, 2],
          [startMs - 9, 5, "allowed", 60_000, null, 5],
        ],
      },
    ]);
  });

  it("a settlement in a later chunk than its reservation stands beside the arrivals", async () => {
    const { record, lines, close, clock } = plane();
    record(sampleBatch({ [one]: [reserved(startMs)] }));
    close();
    record(sampleBatch({ [one]: [settlement(startMs, clock.nowMs - 1), arrival(startMs - 7)] }));
    const [, ...keys] = await lines();
    expect(keys).toEqual([
      { id: one, arrivals: [[startMs, 5, "allowed", 60_000, null, 5]] },
      {
        id: one,
        arrivals: [[startMs - 7, 1, "allowed"]],
        settlements: [[startMs, 5, clock.nowMs - 1, 2]],
      },
    ]);
  });

  it("the reader of replays reads the answer", async () => {
    const { record, send, close, clock } = plane();
    record(sampleBatch({ [one]: [reserved(startMs)], [other]: [arrival(startMs)] }, { lost: 2 }));
    close();
    record(sampleBatch({ [one]: [settlement(startMs, clock.nowMs - 1)] }));
    clock.nowMs += 1;
    const reader = new SamplesReader();
    for (const line of (await (await send("policy=api")).text()).split("\n")) reader.line(line);
    const { header, timelines } = reader.finish();
    expect(header).toMatchObject({ oneKeyIn: 64, arrivals: 2, lost: 2, requests: 20 });
    expect(timelines.keys.toSorted()).toEqual([one, other].toSorted());
    expect([...timelines.reservations.values()]).toEqual([
      { ttlMs: 60_000, settledAtMs: startMs + hourMs - 1, settledCost: 2 },
    ]);
  });
});

describe("the period", () => {
  const instantIn = (atMs: number): string => new Date(atMs).toISOString();

  it("a part of the stored samples has exactly the arrivals from `from` to before `to`", async () => {
    const { record, lines, close } = plane();
    const times = [0, 10, 20, 30, 40, 50].map((minute) => startMs + minute * minuteMs);
    record(sampleBatch({ [one]: times.map((atMs) => arrival(atMs)) }, { lost: 50 }));
    close();
    record(sampleBatch({ [other]: times.map((atMs) => arrival(atMs + hourMs)) }));
    const [fromMs = 0, toMs = 0] = [times[1], times[3]];
    const [header, ...keys] = await lines(`policy=api&from=${instantIn(fromMs)}&to=${instantIn(toMs)}`);
    expect(keys).toEqual([
      {
        id: one,
        arrivals: [
          [fromMs, 1, "allowed"],
          [times[2], 1, "allowed"],
        ],
      },
    ]);
    expect(header).toMatchObject({ arrivals: 2, lost: 20, coverage: 2 / 22 });
  });

  it("a reservation that is settled after the period has no settlement in the answer", async () => {
    const { record, lines } = plane();
    record(sampleBatch({ [one]: [reserved(startMs), settlement(startMs, startMs + 5_000)] }));
    const [, ...keys] = await lines(`policy=api&from=${instantIn(startMs)}&to=${instantIn(startMs + 5_000)}`);
    expect(keys).toEqual([{ id: one, arrivals: [[startMs, 5, "allowed", 60_000, null, 5]] }]);
  });

  it("if `SAMPLE` changed within the period, the answer has only the keys of the smallest sample", async () => {
    const { record, lines, close } = plane();
    const keys = partitionKeys(500);
    const all = Object.fromEntries(keys.map((key) => [key, [arrival(startMs)]]));
    record(sampleBatch(all, { oneKeyIn: 1, lost: 160 }));
    close();
    const few = keys.filter((key) => isSampledKey(key, 16));
    const later = startMs + hourMs - 1;
    record(sampleBatch(Object.fromEntries(few.map((key) => [key, [arrival(later)]])), { oneKeyIn: 16 }));
    const [header, ...found] = await lines();
    expect(few.length).toBeGreaterThan(10);
    expect(header).toMatchObject({ sample: "1/16", arrivals: 2 * few.length, lost: 10 });
    expect(found).toHaveLength(2 * few.length);
    expect(new Set(found.map(({ id }) => id))).toEqual(new Set(few));
  });

  it("with `SAMPLE = off` the answer has no keys, even if samples are stored", async () => {
    const { record, lines } = plane({ sample: "off" });
    record(sampleBatch({ [one]: [arrival(startMs - 1)] }, { lost: 5 }));
    const [header, ...keys] = await lines();
    expect(keys).toEqual([]);
    expect(header).toMatchObject({ sample: "off", arrivals: 0, lost: 0, coverage: 1 });
  });

  it.each([
    ["from=2026-11-22T10:00:00Z&to=2026-11-22T10:00:00Z", "from"],
    ["from=2026-11-22T10:00:01Z&to=2026-11-22T10:00:00Z", "from"],
    ["from=2026-11-21T09:59:59Z&to=2026-11-22T10:00:00Z", "from"],
    ["from=2026-11-22T10:00:00Z", "from"],
    ["from=yesterday", "from"],
    ["to=2026-02-30T10:00:00Z", "to"],
    ["to=1&to=2", "to"],
    ["step=1m", "step"],
    ["policy=login", "policy"],
  ])("the error of the query %s with a policy names the field", async (query, field) => {
    const { send, stub } = plane();
    const response = await send(`policy=api&${query}`);
    expect(response.status).toBe(422);
    const { errors } = await response.json<{ errors: { field: string }[] }>();
    expect(errors.map((each) => each.field)).toEqual([field]);
    expect(stub.samples).not.toHaveBeenCalled();
  });

  it("a query must name a policy of the configuration", async () => {
    const { send } = plane();
    expect([(await send("")).status, (await send("policy=other")).status]).toEqual([422, 404]);
  });
});

describe("a large sample", () => {
  /** A control plane with about 45 chunks. */
  function large() {
    const all = plane();
    const keys = partitionKeys(1_000);
    const own = Object.fromEntries(keys.map((key) => [key, [arrival(startMs)]]));
    const sampled = sampleBatch(own, { oneKeyIn: 1 });
    for (let index = 0; index < 90; index++) all.record(sampled);
    all.clock.nowMs += 1;
    return all;
  }

  it("chunks are read from the object only as fast as the caller reads the answer", async () => {
    const { send, stub } = large();
    const response = await send("policy=api");
    expect(stub.sampleChunks).not.toHaveBeenCalled();
    const reader = response.body?.getReader();
    await reader?.read();
    expect(stub.sampleChunks).not.toHaveBeenCalled();
    await reader?.read();
    expect(stub.sampleChunks).toHaveBeenCalledTimes(1);
    const [, firstIds = []] = stub.sampleChunks.mock.calls[0] ?? [];
    expect(firstIds.length).toBeGreaterThan(5);
    for (const _ of firstIds.slice(1)) {
      // oxlint-disable-next-line no-await-in-loop -- one part after the other
      await reader?.read();
    }
    expect(stub.sampleChunks).toHaveBeenCalledTimes(1);
    await reader?.read();
    expect(stub.sampleChunks).toHaveBeenCalledTimes(2);
    await reader?.cancel();
    expect(stub.sampleChunks).toHaveBeenCalledTimes(2);
  });

  it("a call of the object returns at most 512 KB", async () => {
    const { send, stub } = large();
    await (await send("policy=api")).text();
    const pages = await Promise.all(
      stub.sampleChunks.mock.results.map(({ value }) => value as Promise<readonly ArrayBuffer[]>),
    );
    const sizes = pages.map((page) => page.reduce((sum, each) => sum + each.byteLength, 0));
    expect(sizes.length).toBeGreaterThan(2);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(512 * 1_024);
  });

  it("a chunk that is dropped while the answer is sent is left out", async () => {
    const { send, stub, storage } = large();
    const response = await send("policy=api");
    stub.sampleChunks.mockImplementationOnce(async () => []);
    const text = await response.text();
    const chunks = storage.sql.exec("SELECT id FROM samples").toArray().length;
    expect(text.split("\n").length - 2).toBeLessThan(chunks * 1_000);
  });
});

describe("failures", () => {
  it("while the control plane does not answer and no line has been sent, the answer is 503", async () => {
    const { send, stub } = plane();
    stub.samples.mockRejectedValue(new Error("the object is overloaded"));
    const response = await send("policy=api");
    expect(response.status).toBe(503);
    expect(response.headers.get("Content-Type")).toBe("application/problem+json");
  });

  it("an answer of which lines have been sent breaks off when the control plane fails", async () => {
    const { send, stub, record, close } = plane();
    record(sampleBatch({ [one]: [arrival(startMs)] }));
    close();
    stub.sampleChunks.mockRejectedValue(new Error("the object is overloaded"));
    const response = await send("policy=api");
    expect(response.status).toBe(200);
    await expect(response.text()).rejects.toThrow("control-plane-silent");
  });

  it("an answer breaks off at a damaged chunk, and the fault is reported", async () => {
    const { send, record, close, storage } = plane();
    record(sampleBatch({ [one]: [arrival(startMs)] }));
    close();
    storage.sql.exec("UPDATE samples SET body = ?", new Uint8Array([1, 2, 3]).buffer);
    const response = await send("policy=api");
    await expect(response.text()).rejects.toThrow("the samples are damaged");
    expect(logged).toEqual([expect.stringContaining('"event":"internal-error"')]);
  });

  it("a batch that cannot be read is counted as lost before it becomes a chunk", async () => {
    const { record, lines } = plane();
    record(sampleBatch({ [one]: [arrival(startMs - 1)] }));
    record(sampleBatch({}, { events: "AAAA", arrivals: 3 }));
    const [header, ...keys] = await lines();
    expect(header).toMatchObject({ arrivals: 1, lost: 3, coverage: 0.25 });
    expect(keys).toHaveLength(1);
  });
});
