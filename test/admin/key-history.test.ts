/** `/api/keys/{policy}/{id}/history` and `…/recording`, over the store of the control plane. */
import { Hono } from "hono";
import { expect, it } from "vitest";
import { isolationFields } from "../../src/admin/console.ts";
import { type AdminContext, type Authenticated, answerRefusal } from "../../src/admin/context.ts";
import { ControlPlaneCaller, type ControlPlaneStub } from "../../src/admin/control-plane-caller.ts";
import { readKeyHistory, recordKey, stopRecording } from "../../src/admin/key-history.ts";
import type { KeyHistory } from "../../src/admin/wire.ts";
import { isSampledKey } from "../../src/control/isolate/traffic-sample.ts";
import type { StatisticsBatch } from "../../src/control/protocol.ts";
import { parseConfig } from "../../src/policy/vars/config.ts";
import { ada, beat, TestPlane } from "../control/object/test-plane.ts";
import { batch } from "../control/object/batches.ts";
import { arrival, sampleBatch } from "../control/object/sample-batches.ts";
import { partitionKeys } from "../control/key-streams.ts";
import { adminContract, expectContract } from "../http/contract.ts";

const minuteMs = 60_000;
const keys = partitionKeys(500);
const inSample = keys.find((key) => isSampledKey(key, 64)) ?? "";
const outside = keys.find((key) => !isSampledKey(key, 64)) ?? "";

function site({ sample = "1/64" } = {}) {
  const plane = new TestPlane();
  const { clock } = plane;
  const { control } = plane;
  const promised = new Proxy(control, {
    get: (target, property) => {
      const method: unknown = Reflect.get(target, property);
      return async (...parameters: unknown[]): Promise<unknown> =>
        typeof method === "function" ? Reflect.apply(method, target, parameters) : method;
    },
  });
  const config = parseConfig({
    KEY_SECRET: "s",
    POLICIES: [{ name: "api", key: "ip", limits: "5/minute" }],
    SAMPLE: sample,
  });
  const context = {
    controlPlane: new ControlPlaneCaller({ getByName: () => promised as object as ControlPlaneStub }, clock),
    control: { watch: () => undefined },
    clock,
    policies: config.policies,
    sampleOneKeyIn: config.sampleOneKeyIn,
  } as object as AdminContext;
  const app = new Hono<Authenticated>();
  app.onError(answerRefusal);
  app.use(async (c, next) => {
    c.set("operator", { actor: ada, may: new Set() });
    await next();
    for (const [field, value] of Object.entries(isolationFields)) c.header(field, value);
  });
  app.get("/_headgate/api/keys/:policy/:id/history", (c) => readKeyHistory(context, c));
  app.put("/_headgate/api/keys/:policy/:id/recording", (c) => recordKey(context, c));
  app.delete("/_headgate/api/keys/:policy/:id/recording", (c) => stopRecording(context, c));
  const send = async (method: string, path: string): Promise<Response> => {
    const url = new URL(`http://localhost/_headgate/api/keys/api/${path}`);
    const response = await app.request(url, { method });
    await expectContract("/_headgate/api", { method, url, body: undefined }, response, adminContract);
    return response;
  };
  let seq = 0;
  return {
    clock,
    control,
    send,
    count: (fields: Partial<StatisticsBatch>): void => {
      control.beat(beat({ batches: [{ ...batch(++seq, 1), ...fields }] }));
    },
    history: async (id: string, query = ""): Promise<KeyHistory> =>
      (await send("GET", `${id}/history${query}`)).json<KeyHistory>(),
  };
}

it("the history of a sampled key has its sampled requests by step, and since when they are known", async () => {
  const { clock, count, history } = site();
  const startMs = clock.nowMs;
  const events = [arrival(startMs - 2), arrival(startMs - 1, { outcome: "denied" })];
  count({ samples: { api: sampleBatch({ [inSample]: events }) } });
  clock.nowMs += 7 * minuteMs;
  count({ samples: { api: sampleBatch({ [inSample]: [arrival(clock.nowMs - 1)] }, { lost: 5 }) } });
  const { sample, points, recordings, recording } = await history(inSample, "?step=1m");
  expect(points.map(({ outcomes }) => outcomes)).toEqual([{ allowed: 1, denied: 1 }, { allowed: 1 }]);
  expect(sample?.from).toBe(new Date(startMs).toISOString());
  expect(sample?.coverage).toBeCloseTo(3 / 8);
  expect([recordings, recording]).toEqual([[], null]);
});

it("a key outside the sample has a history only while it is recorded", async () => {
  const { clock, count, send, history } = site();
  const empty = await history(outside);
  expect([empty.sample, empty.points]).toEqual([null, []]);
  const response = await send("PUT", `${outside}/recording`);
  expect(response.status).toBe(200);
  const period = await response.json();
  clock.nowMs += 5_000;
  count({ recorded: { api: { [outside]: { allowed: 3, denied: 2 } } } });
  const { points, recording, recordings } = await history(outside);
  expect(points.map(({ outcomes }) => outcomes)).toEqual([{ allowed: 3, denied: 2 }]);
  expect([recording, recordings]).toEqual([period, [period]]);
  expect((await send("DELETE", `${outside}/recording`)).status).toBe(204);
  const stopped = await history(outside);
  expect([stopped.recording, stopped.points]).toEqual([null, points]);
});

it("a recording works without a sample, and the audit log names who began and stopped it", async () => {
  const { clock, control, count, send, history } = site({ sample: "off" });
  await send("PUT", `${inSample}/recording`);
  count({ recorded: { api: { [inSample]: { blocked: 1 } } } });
  clock.nowMs += 1_000;
  await send("DELETE", `${inSample}/recording`);
  // A key that is not recorded cannot be stopped, which is no change.
  await send("DELETE", `${inSample}/recording`);
  expect((await history(inSample)).points).toEqual([
    { at: new Date(Math.floor(clock.nowMs / 300_000) * 300_000).toISOString(), outcomes: { blocked: 1 } },
  ]);
  const { items } = control.audit({ limit: 10 });
  expect(items.map(({ action, actor, key }) => [action, actor, key])).toEqual([
    ["stop-recording", ada.name, inSample],
    ["record", ada.name, inSample],
  ]);
});

it("a request of a sampled key that is recorded counts once", async () => {
  const { clock, count, send, history } = site();
  clock.nowMs = Math.ceil(clock.nowMs / minuteMs) * minuteMs;
  await send("PUT", `${inSample}/recording`);
  const both = (times: number) => ({
    recorded: { api: { [inSample]: { allowed: times, exempt: 1 } } },
    samples: { api: sampleBatch({ [inSample]: Array.from({ length: times }, () => arrival(clock.nowMs)) }) },
  });
  for (const times of [2, 3, 4]) {
    count(both(times));
    clock.nowMs += minuteMs;
  }
  const { points } = await history(inSample, "?step=1m");
  expect(points.map(({ outcomes }) => outcomes.allowed)).toEqual([2, 3, 4]);
});

it("recordings do not change the samples, from which the advisor extrapolates", async () => {
  const { control, count, send } = site();
  await send("PUT", `${outside}/recording`);
  count({
    recorded: { api: { [outside]: { denied: 9 } } },
    samples: { api: sampleBatch({ [inSample]: [arrival(1)] }) },
  });
  const { open, chunks, requests } = control.samples({ policy: "api", fromMs: 0, toMs: Number.MAX_SAFE_INTEGER });
  expect([chunks, open.map(({ arrivals }) => arrivals), requests]).toEqual([[], [1], 1]);
});

it("the hundred-first recording gets 409, with the time when another one ends", async () => {
  const { clock, send } = site();
  const untilText = new Date(clock.nowMs + 60 * minuteMs).toISOString();
  for (const key of keys.slice(0, 100)) {
    // oxlint-disable-next-line no-await-in-loop
    expect((await send("PUT", `${key}/recording`)).status).toBe(200);
  }
  const response = await send("PUT", `${keys[100]}/recording`);
  expect([response.status, (await response.json<{ detail: string }>()).detail]).toEqual([
    409,
    `100 keys are recorded, which is the maximum. Stop a recording, or wait until ${untilText}.`,
  ]);
});
