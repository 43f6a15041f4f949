/** The denials that an isolate reports for the log: their bounds, their instances, and what is counted as lost. */
import { describe, expect, it } from "vitest";
import { DenialSample, type DescribedDenial } from "../../../src/control/isolate/denial-sample.ts";
import { IsolateStatistics } from "../../../src/control/isolate/statistics.ts";
import { KeySealer } from "../../../src/control/isolate/key-sealer.ts";
import type { LoggedReason } from "../../../src/control/denial-calls.ts";

const described = {
  outcome: "denied",
  reason: "limit",
  limits: [],
  retryAfterMs: 1_000,
  bannedForMs: 0,
  cost: 1,
  colo: "FRA",
} as const satisfies DescribedDenial;

/** Notes a denial of a key at an instant. */
function note(
  sample: DenialSample,
  key: string,
  { policy = "api", reason = "limit", atMs = 0, instance = null }: Partial<NotedDenial> = {},
): string {
  const countedInMs = atMs - (atMs % 60_000);
  return sample.note({ policy, key, reason, countedInMs }, atMs, instance, () => ({
    ...described,
    reason,
    plain: null,
  }));
}

interface NotedDenial {
  readonly policy: string;
  readonly reason: LoggedReason;
  readonly atMs: number;
  readonly instance: string | null;
}

const entriesOf = (sample: DenialSample, nowMs = 0) => sample.drain(nowMs)?.batch.entries ?? [];

it("denials of two minutes have different entries, so that each minute has as many as the statistics count", () => {
  const sample = new DenialSample();
  for (const atMs of [59_000, 59_500, 59_999, 60_000]) note(sample, "key", { atMs });
  const counts = entriesOf(sample, 61_000).map(({ countedInMs, count }) => [countedInMs, count]);
  expect(counts).toEqual([
    [0, 1],
    [0, 2],
    [60_000, 1],
  ]);
});

describe("the instances of denials", () => {
  it("an instance is a UUID of version 8, and different denials of one isolate have different instances", () => {
    const sample = new DenialSample();
    const instances = Array.from({ length: 1_000 }, (_, index) => note(sample, `key-${index}`));
    expect(new Set(instances).size).toBe(1_000);
    for (const instance of instances) {
      expect(instance).toMatch(/^[\da-f]{8}-[\da-f]{4}-8[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/);
    }
  });

  it("two isolates have no instance in common", () => {
    const [one, other] = [new DenialSample(), new DenialSample()];
    expect(note(one, "key").slice(0, 28)).not.toBe(note(other, "key").slice(0, 28));
  });

  it("a request that two policies deny has one instance in the entries of both", () => {
    const sample = new DenialSample();
    const instance = note(sample, "key", { policy: "login" });
    expect(note(sample, "key", { policy: "api", instance })).toBe(instance);
    expect(entriesOf(sample)).toMatchObject([
      { policy: "login", instance },
      { policy: "api", instance },
    ]);
  });
});

describe("the entries of a batch", () => {
  it("further denials of one key are counted in its second entry, whose instance their responses have", () => {
    const sample = new DenialSample();
    const instances = [0, 100, 200, 300].map((atMs) => note(sample, "key", { atMs }));
    expect(new Set(instances).size).toBe(2);
    expect(entriesOf(sample, 1_000)).toMatchObject([
      { instance: instances[0], count: 1, agoMs: 1_000, lastAgoMs: 1_000 },
      { instance: instances[3], count: 3, agoMs: 900, lastAgoMs: 700 },
    ]);
  });

  it("a ban of a key that limits have denied before has an entry of its own", () => {
    const sample = new DenialSample();
    for (let request = 0; request < 5; request++) note(sample, "key");
    note(sample, "key", { reason: "ban" });
    expect(entriesOf(sample).map(({ reason, count }) => [reason, count])).toEqual([
      ["limit", 1],
      ["limit", 4],
      ["ban", 1],
    ]);
  });

  it("denials of more keys than a batch has room for are counted as lost", () => {
    const sample = new DenialSample();
    for (let key = 0; key < 60; key++) note(sample, `key-${key}`);
    const { entries = [], lost } = sample.drain(0)?.batch ?? {};
    expect([entries.length, lost]).toEqual([48, { api: 12 }]);
  });

  it("a flood by the keys of one policy makes room for the denials of another policy", () => {
    const sample = new DenialSample();
    for (let key = 0; key < 100; key++) note(sample, `flood-${key}`);
    note(sample, "visitor", { policy: "login" });
    const { entries = [], lost } = sample.drain(0)?.batch ?? {};
    expect(entries.filter(({ policy }) => policy === "login")).toMatchObject([{ key: "visitor" }]);
    expect([entries.length, lost]).toEqual([48, { api: 53 }]);
  });

  it("a batch begins empty after the previous one", () => {
    const sample = new DenialSample();
    note(sample, "key");
    expect(entriesOf(sample)).toHaveLength(1);
    expect(sample.drain(0)).toBeNull();
  });
});

describe("the batches of an isolate", () => {
  const denial = {
    policy: "api",
    outcome: "denied",
    reason: "limit",
    key: { partitionKey: "k".repeat(43), cost: 2 },
    decision: null,
    plain: { parts: [{ kind: "ip" as const }], values: ["192.0.2.1"] },
  } as const;

  it("a batch has the denials with their sealed keys, and is sent again until it is stored", async () => {
    const sealer = new KeySealer("the secret of the keys");
    const statistics = new IsolateStatistics({ sealer, alertedPolicies: new Set(), logsDenials: true });
    const instance = statistics.logDenial(denial, null);
    const [batch] = await statistics.batches();
    const [entry] = batch?.denials?.entries ?? [];
    expect(entry).toMatchObject({ instance, policy: "api", cost: 2, count: 1 });
    expect(await sealer.open("api", denial.key.partitionKey, entry?.sealed ?? "")).toBe("ip=192.0.2.1");
    expect((await statistics.batches())[0]?.denials?.entries).toHaveLength(1);
    statistics.stored(1);
    expect(await statistics.batches()).toEqual([]);
  });

  it("no denial has an instance while the log is off", async () => {
    const statistics = new IsolateStatistics({ sealer: null, alertedPolicies: new Set() });
    expect(statistics.logDenial(denial, null)).toBeNull();
    expect(await statistics.batches()).toEqual([]);
  });
});
