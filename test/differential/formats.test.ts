/**
 * The calls between isolates and objects, and the stored rows, in the form of version 0.1.0, which every later version
 * keeps.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, it } from "vitest";
import { MemoryStorage } from "../../src/sdk/testing/memory-storage.ts";
import { provideWorkerdGlobals } from "./node-platform.ts";
import { type RecordedRequest, replay, type Target } from "./replay.ts";
import { VirtualObject } from "../fakes/virtual-object.ts";
import { currentVersion, previousVersion } from "./targets.ts";

beforeAll(provideWorkerdGlobals);

/** A call with its reply. Calls are in the order in which they arrive. */
interface Call {
  /** The number of the object, in the order in which objects are created. */
  readonly object: number;
  readonly atMs: number;
  readonly method: string;
  readonly values: readonly unknown[];
  readonly reply: unknown;
}

interface Formats {
  readonly calls: Call[];
  /** The rows of all objects, by name. */
  readonly rows: Record<string, string>;
}

const fixture = join(import.meta.dirname, "../previous-version/formats.json");
const startMs = Date.UTC(2100, 0, 1);
const token = "a-token-of-these-tests";
const limitOf = (strategy: string, options: object = {}) => ({ limit: 10, window: "1h", strategy, ...options });

/** A limit for each strategy and option that has its own form of state. */
const limits: Readonly<Record<string, object>> = {
  fixed: limitOf("fixed-window"),
  clock: limitOf("fixed-window", { align: "clock" }),
  calendar: limitOf("fixed-window", { window: "1mo", align: "calendar", timezone: "Europe/Berlin" }),
  log: limitOf("sliding-log"),
  elastic: limitOf("fixed-window", { elastic: true }),
  counter: limitOf("sliding-window-counter"),
  buckets: limitOf("sliding-buckets"),
  tokens: limitOf("token-bucket", { burst: 12 }),
  interval: limitOf("token-bucket", { refill: "interval" }),
  police: limitOf("leaky-bucket", { mode: "police" }),
  queue: limitOf("leaky-bucket", { mode: "queue", window: "1s" }),
  slots: limitOf("concurrency"),
};

const variables = {
  ORIGIN: "https://origin.example",
  CHECK_TOKENS: token,
  KEY_SECRET: "a secret of more than thirty-two characters",
  POLICIES: [
    ...Object.entries(limits).map(([name, limit]) => ({ name, limits: limit, durability: "confirmed" })),
    { name: "leased", limits: limitOf("sliding-log", { limit: 1_000 }), consistency: "leased" },
    { name: "eventual", limits: limitOf("sliding-log"), consistency: "eventual" },
    { name: "banning", limits: limitOf("fixed-window", { limit: 1 }), ban: { after: 1, within: "1h", for: "1h" } },
    { name: "several", limits: "5/minute; 20/hour; 100/day", objects: "sharded", denyCache: false },
  ].map((policy) => ({ ...policy, key: "ip", match: { path: `/${policy.name}` } })),
};

const policies = variables.POLICIES.map(({ name }) => name);
const keyOf = (policy: string): string => `192.0.2.${policies.indexOf(policy)}`;

function requestsOfStory(): RecordedRequest[] {
  let atMs = startMs;
  const send = (method: string, path: string, body?: object, id?: string): RecordedRequest => ({
    atMs: (atMs += 10),
    variables,
    url: `https://headgate.example/check${path}`,
    init: {
      method,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    },
    ...(id !== undefined && { response: { body: `{"id":"${id}"}`, etag: null } }),
  });
  const look = (policy: string): RecordedRequest => send("GET", `?policy=${policy}&key=${keyOf(policy)}`);
  const check = (policy: string, cost = 1) => ({ policy, key: keyOf(policy), cost });
  return [
    ...policies.flatMap((policy) => [
      send("POST", "", check(policy, policy === "slots" ? 1 : 3)),
      send("POST", "/reserve", { ...check(policy, 2), ttlMs: 60_000 }, `first-of-${policy}`),
      send("POST", "/reserve", { ...check(policy), ttlMs: 600_000 }, `second-of-${policy}`),
      send("POST", "/settle", { id: `first-of-${policy}`, cost: 1 }),
      send("POST", "", check(policy, 10)),
      send("POST", "", check(policy, 10)),
    ]),
    ...Array.from({ length: 9 }, () => send("POST", "", check("leased"))),
    send("POST", "/batch", { checks: policies.filter((policy) => policy !== "leased").map((policy) => check(policy)) }),
    send("DELETE", `?policy=several&key=${keyOf("several")}`),
    ...policies.map(look),
  ];
}

/** Runs the same requests with isolates and objects of one version, and records their calls and rows. */
async function formatsOf(target: Target): Promise<Formats> {
  const storages: MemoryStorage[] = [];
  const calls: Call[] = [];
  const recording: Target = {
    ...target,
    newObject: (platform) => {
      const index = storages.push(platform.storage as MemoryStorage) - 1;
      const object = target.newObject(platform);
      const record =
        (method: string, act: (...values: unknown[]) => unknown) =>
        (...values: unknown[]): unknown => {
          const sent = structuredClone(values);
          const reply = act.apply(object, values);
          if (method !== "alarm")
            calls.push({ object: index, atMs: platform.now() - startMs, method, values: sent, reply });
          return reply;
        };
      return new Proxy(object, {
        get: (_, name) => {
          const act: unknown = Reflect.get(object, name);
          return typeof act === "function" ? record(String(name), act as () => unknown) : act;
        },
      });
    },
  };
  await replay(recording, requestsOfStory(), async () => new Response("from the origin"));
  return { calls, rows: rowsOf(storages) };
}

const rowsOf = (storages: readonly MemoryStorage[]): Record<string, string> =>
  Object.fromEntries(storages.flatMap(({ rows }) => [...rows]).toSorted(([one], [other]) => (one < other ? -1 : 1)));

/** The value as it reads in the fixture, which is JSON. */
const plain = (value: unknown): unknown => (value === undefined ? undefined : JSON.parse(JSON.stringify(value)));
const frozen = (): Formats => JSON.parse(readFileSync(fixture, "utf8")) as Formats;
const reply = (object: object, { method, values }: Call): unknown => {
  const act = Reflect.get(object, method) as (...given: unknown[]) => unknown;
  return plain(act.apply(object, structuredClone([...values])));
};

it("the calls and rows of the previous version equal the stored fixture", async () => {
  await expect(`${JSON.stringify(await formatsOf(previousVersion), null, 1)}\n`).toMatchFileSnapshot(fixture);
});

it("isolates of this version send the checks, reservations and slices of 0.1.0", async () => {
  // The reads at the end are left out, because they may use another method.
  const withoutReads = ({ calls }: Formats): unknown => plain(calls.slice(0, -policies.length));
  expect(withoutReads(await formatsOf(currentVersion))).toEqual(withoutReads(frozen()));
});

it("objects of this version reply to the calls of 0.1.0 as 0.1.0 did, and write the same rows", async () => {
  const { calls, rows } = frozen();
  const objects = new Map<number, VirtualObject<MemoryStorage>>();
  for (const call of calls) {
    const object = objects.get(call.object) ?? new VirtualObject(new MemoryStorage(), startMs);
    objects.set(call.object, object);
    // The calls must be made in order.
    // oxlint-disable-next-line no-await-in-loop
    await object.pass(startMs + call.atMs - object.nowMs);
    // Recorded times may go back, since the recording sets its clock back after it has waited for a timer.
    object.nowMs = startMs + call.atMs;
    expect(reply(object.limiter, call)).toEqual(call.reply);
  }
  expect(rowsOf([...objects.values()].map(({ storage }) => storage))).toEqual(rows);
  expect(Object.keys(rows).length).toBeGreaterThan(10);
  expect(new Set(calls.map(({ method }) => method)).size).toBeGreaterThan(5);
});

it("objects of this version that start with the rows of 0.1.0 reply to reads as 0.1.0 did", () => {
  const { calls, rows } = frozen();
  const storage = new MemoryStorage();
  for (const [name, row] of Object.entries(rows)) storage.rows.set(name, row);
  const confirmed = calls.slice(-policies.length).slice(0, Object.keys(limits).length);
  for (const call of confirmed) {
    expect(reply(new VirtualObject(storage, startMs + call.atMs).limiter, call)).toEqual(call.reply);
  }
});
