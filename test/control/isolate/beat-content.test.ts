/** The content of beats: the deployment, its policies, statistics, the tail and alerts. */
import { expect, it } from "vitest";
import type { StatisticsBatch } from "../../../src/control/protocol.ts";
import { IsolateStatistics } from "../../../src/control/isolate/statistics.ts";
import { RecordedKeys } from "../../../src/control/isolate/traffic-sample.ts";
import { type BeatSource, beatTimes, configured, eventsOf, Network } from "./network.ts";

const off = { kind: "mode", mode: "off" } as const;

it("the first beat describes the policies, and later ones only when the control plane asks", async () => {
  const network = new Network();
  await network.make(off);
  const isolate = network.isolate({ policies: configured({ dryRun: true, objects: "sharded" }) });
  await isolate.settledRequest();
  await network.pass(5_000);
  await isolate.settledRequest();
  const [first, second] = network.calls;
  expect(first?.policies).toEqual([
    {
      name: "p",
      mode: "dry-run",
      objects: { shards: 32, locationHint: null, jurisdiction: null },
      limits: [{ name: "p", limit: 10, windowMs: 60_000 }],
    },
    expect.objectContaining({ name: "q", mode: "enforce" }),
  ]);
  expect(second).not.toHaveProperty("policies");
  network.after = (reply) => Promise.resolve({ ...reply, wantsPolicies: true });
  await network.pass(5_000);
  await isolate.settledRequest();
  await network.pass(5_000);
  await isolate.settledRequest();
  expect(network.calls[3]?.policies).toEqual(first?.policies);
});

it("a first beat that fails is followed by one that describes the policies", async () => {
  const network = new Network();
  network.before = () => Promise.reject(new Error("down"));
  const isolate = network.isolate();
  await eventsOf(() => isolate.settledRequest());
  await network.pass(1_000);
  await eventsOf(() => isolate.settledRequest());
  expect(network.calls.map(({ policies }) => policies?.length)).toEqual([2, 2]);
});

it("isolates of one deployment have the same deployment id, and different ids of their own", async () => {
  const network = new Network();
  const changes = [
    {},
    {},
    { codeVersion: "2" },
    { policies: configured({ limits: "11/minute" }) },
    { policies: configured({ objects: "sharded" }) },
    { policies: configured().slice(1) },
  ];
  for (const options of changes) {
    // oxlint-disable-next-line no-await-in-loop
    await network.isolate(options).settledRequest();
  }
  const deployments = network.calls.map(({ deployment }) => deployment);
  expect(new Set(deployments).size).toBe(changes.length - 1);
  expect(deployments[0]).toBe(deployments[1]);
  expect(new Set(network.calls.map(({ isolate }) => isolate)).size).toBe(changes.length);
  expect(new Set(network.calls.map(({ secretId }) => secretId)).size).toBe(1);
});

const source = (): BeatSource & { kept: StatisticsBatch[]; stored: BeatSource["stored"] } => {
  const kept: StatisticsBatch[] = [];
  let seq = 0;
  return {
    kept,
    batches: async () => {
      kept.push({ seq: ++seq, agoMs: 0, policies: {}, originFailures: 0 });
      return [...kept];
    },
    stored: (upTo) => void kept.splice(0, kept.filter((each) => each.seq <= upTo).length),
    startMinute: () => undefined,
    setTailed: () => undefined,
    tail: async () => [],
    alerts: () => [],
    recorded: new RecordedKeys(),
  };
};

it("batches that the control plane has not stored are sent again, and stored batches are not", async () => {
  const network = new Network();
  await network.make(off);
  const isolate = network.isolate({ statistics: source() });
  const sent = async (): Promise<unknown> => {
    await isolate.settledRequest();
    await network.pass(5_000);
    return network.calls.at(-1)?.batches.map(({ seq }) => seq);
  };
  network.after = (reply) => Promise.resolve({ ...reply, storedSeq: 0 });
  expect(await sent()).toEqual([1]);
  network.after = (reply) => Promise.resolve({ ...reply, storedSeq: 1 });
  expect(await sent()).toEqual([1, 2]);
  expect(await sent()).toEqual([2, 3]);
});

it("a tail is collected only after a reply that asks for it", async () => {
  const network = new Network();
  await network.make(off);
  const tailed: boolean[] = [];
  const entry = { policy: "p" } as never;
  const statistics = {
    ...source(),
    setTailed: (isTailed: boolean) => void tailed.push(isTailed),
    tail: async () => [entry],
  };
  const isolate = network.isolate({ statistics });
  for (const isTailed of [true, false, false]) {
    network.isTailed = isTailed;
    // oxlint-disable-next-line no-await-in-loop
    await isolate.settledRequest();
    // oxlint-disable-next-line no-await-in-loop
    await network.pass(5_000);
  }
  expect(tailed).toEqual([true, false, false]);
  expect(network.calls.map(({ tail }) => tail)).toEqual([[], [entry], []]);
});

it("an isolate gets the list of recorded keys with a beat, names its version in the next one, and sends their outcomes", async () => {
  const network = new Network();
  const { control, clock } = network.plane;
  const statistics = new IsolateStatistics({ sealer: null, alertedPolicies: new Set(), clock });
  const isolate = network.isolate({ statistics });
  const name = { policy: "p", key: "k" };
  control.record({ ...name, actor: { name: "ada", via: "token" } });
  const request = async (): Promise<void> => {
    statistics.record("p", "denied", { partitionKey: "k", cost: 1 }, null, null);
    await isolate.settledRequest();
    await network.pass(30_000);
  };
  for (let times = 0; times < 3; times++) {
    // oxlint-disable-next-line no-await-in-loop
    await request();
  }
  const [first, second, third] = network.calls;
  expect(first?.recordedVersion).toBe(0);
  expect(second?.recordedVersion).toBeGreaterThan(0);
  expect(third?.recordedVersion).toBe(second?.recordedVersion);
  expect(first?.batches.at(-1)).not.toHaveProperty("recorded");
  expect(second?.batches.at(-1)?.recorded).toEqual({ p: { k: { denied: 1 } } });
  const { points } = control.recordedCounts({ ...name, fromMs: 0, toMs: Number.MAX_SAFE_INTEGER });
  expect(points.reduce((sum, { outcomes }) => sum + (outcomes.denied ?? 0), 0)).toBe(2);
});

it("at most 64 alerts of a failed beat are sent again, and alerts of a stored beat are not", async () => {
  const network = new Network();
  await network.make(off);
  let count = 0;
  const statistics = { ...source(), alerts: () => [{ key: `k${count++}` } as never] };
  const isolate = network.isolate({ statistics });
  network.before = () => Promise.reject(new Error("down"));
  await eventsOf(() => beatTimes(network, 8_000, 1_000, () => isolate.request()));
  expect(network.calls.map(({ alerts }) => alerts.map(({ key }) => key))).toEqual([
    ["k0"],
    ["k0", "k1"],
    ["k0", "k1", "k2"],
    ["k0", "k1", "k2", "k3"],
  ]);
  await eventsOf(() => beatTimes(network, 400_000, 5_000, () => isolate.request()));
  expect(network.calls.at(-1)?.alerts).toHaveLength(64);
  network.before = () => Promise.resolve();
  await network.pass(5_000);
  await isolate.settledRequest();
  await network.pass(5_000);
  await isolate.settledRequest();
  expect(network.calls.at(-1)?.alerts).toHaveLength(1);
});
