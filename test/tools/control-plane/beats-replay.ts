/**
 * Replays isolates and their control plane in virtual time, and counts what Cloudflare bills for beats, rows and
 * alarms. The isolates' beats and statistics and the control plane object run the real code.
 */
import { createHash } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import { parseConfig } from "../../../src/policy/vars/config.ts";
import type { Policy } from "../../../src/policy/policy.ts";
import { ControlClient } from "../../../src/control/isolate/control-client.ts";
import { IsolateStatistics } from "../../../src/control/isolate/statistics.ts";
import { Plane } from "../../../src/control/object/plane.ts";
import type { BeatCall } from "../../../src/control/protocol.ts";
import type { Clock } from "../../../src/limiter/clock.ts";
import { decisionOf, denied } from "../../control/decisions.ts";
import { partitionKeys } from "../../control/key-streams.ts";
import { arrival } from "../../control/object/sample-batches.ts";
import { MemorySql } from "../../fakes/memory-sql.ts";
import { type Random, randomFrom } from "../../random.ts";

export const beatModes = ["no rule was ever made", "with rules", "watched"] as const;
export type BeatMode = (typeof beatModes)[number];

export interface BeatTraffic {
  readonly isolates: number;
  /** Decisions per second of each isolate. */
  readonly rate: number;
  readonly mode: BeatMode;
  /** Whether traffic is sampled, with the default `SAMPLE`. */
  readonly isSampled: boolean;
  /** Denies every tenth request, of 10,000 keys in turn, and logs the denials. Default: all are allowed. */
  readonly logsDenials?: boolean;
}

/** Counts per hour. */
export interface BeatBill {
  readonly beats: number;
  readonly alarms: number;
  readonly rowsWritten: number;
  /** The time in which the object is active. Concurrent events count once. */
  readonly activeSeconds: number;
}

const hourMs = 3_600_000;
/** The first two minutes create the schema and describe the deployment. The hour ends while the counts are taken. */
const warmUpMs = 120_000;
const startMs = 500_000 * hourMs - 360_000;
/**
 * With many isolates, the measured time is shorter. Rows that are written at the end of an hour then weigh too much,
 * but they are few.
 */
const countedMs = (isolates: number): number => (isolates > 10 ? hourMs / 6 : hourMs);
/** The assumed duration of each event of the object. */
const eventMs = 1;

const { policies, sampleOneKeyIn, mostDenials } = parseConfig({ KEY_SECRET: "s", LIMITS: "1000/minute" });
const [policy] = policies as [Policy];
/** All keys are equally frequent. Samples are smaller when a few keys make most of the requests. */
const keys = partitionKeys(10_000);
const key = { partitionKey: "k".repeat(43), cost: 1 };
const decision = decisionOf();
const sample = { oneKeyIn: sampleOneKeyIn ?? 1, policies: new Set([policy.name]) };

class CountedStorage extends MemorySql {
  override setAlarm(atMs: number): Promise<void> {
    if (atMs !== this.alarmAtMs) this.rowsWritten++;
    return super.setAlarm(atMs);
  }
}

class Replay {
  nowMs = startMs;
  beats = 0;
  alarms = 0;
  activeMs = 0;
  readonly storage = new CountedStorage();
  readonly #clock: Clock = { now: () => this.nowMs, after: () => () => undefined };
  readonly #plane: Plane;
  readonly #isWatched: boolean;
  readonly #isSampled: boolean;
  readonly #logsDenials: boolean;
  #activeUntilMs = 0;

  constructor({ mode, isSampled, logsDenials = false }: BeatTraffic) {
    this.#isWatched = mode === "watched";
    this.#isSampled = isSampled;
    this.#logsDenials = logsDenials;
    const sockets = { sockets: () => [], accept: () => new Response() };
    const observers = { alerts: null, mostDenials, dataset: null, sockets, waitUntil: () => undefined };
    this.#plane = new Plane({
      storage: this.storage,
      clock: this.#clock,
      push: () => Promise.reject(new Error("only key rules are pushed")),
      randomId: () => "",
      observers,
    });
    if (mode !== "no rule was ever made") this.#makeRule();
  }

  isolate(random: Random): ReplayedIsolate {
    const statistics = new IsolateStatistics({
      sealer: null,
      alertedPolicies: new Set(),
      sample: this.#isSampled ? sample : null,
      logsDenials: this.#logsDenials,
      clock: this.#clock,
    });
    const client = new ControlClient({
      policies: [policy],
      objects: { getByName: () => ({ beat: async (call) => this.#beat(call) }) },
      codeVersion: "1",
      hash: async (text) => createHash("sha256").update(text).digest("base64url"),
      statistics,
      clock: this.#clock,
    });
    return { client, statistics, random, nextMs: startMs, requests: 0, logsDenials: this.#logsDenials };
  }

  /** Each chunk of samples and of denials is later deleted, which writes one more row. */
  get rowsWritten(): number {
    const chunks = ["samples", "denials"].map((table) => this.storage.sql.exec(`SELECT id FROM ${table}`).toArray());
    return this.storage.rowsWritten + chunks.flat().length;
  }

  async runDueAlarm(): Promise<void> {
    if ((this.storage.alarmAtMs ?? Number.POSITIVE_INFINITY) > this.nowMs) return;
    this.storage.alarmAtMs = null;
    this.alarms++;
    this.#account();
    await this.#plane.alarm();
  }

  #beat(call: BeatCall): ReturnType<Plane["beat"]> {
    this.beats++;
    this.#account();
    if (this.#isWatched) this.#plane.tail.watch(this.nowMs);
    return this.#plane.beat(call);
  }

  #account(): void {
    const untilMs = this.nowMs + eventMs;
    this.activeMs += untilMs - Math.max(this.nowMs, Math.min(this.#activeUntilMs, untilMs));
    this.#activeUntilMs = untilMs;
  }

  #makeRule(): void {
    const rule = { kind: "mode", mode: "enforce" } as const;
    const written = { mode: "enforce" };
    const common = { sealedKey: null, written, expiresAtMs: null, note: null, objects: null };
    this.#plane.changePolicy({
      policy: policy.name,
      parts: [
        {
          kind: "mode",
          rule: { scope: "policy", policy: policy.name, key: null, rule, ...common },
        },
      ],
      epoch: startMs,
      version: 0,
      actor: { name: "ada", via: "token" },
      note: null,
    });
  }
}

interface ReplayedIsolate {
  readonly client: ControlClient;
  readonly statistics: IsolateStatistics;
  readonly random: Random;
  readonly logsDenials: boolean;
  nextMs: number;
  requests: number;
}

/** Counts traffic with random intervals between the requests of each isolate. */
export async function billOfBeats(traffic: BeatTraffic): Promise<BeatBill> {
  const { isolates, rate } = traffic;
  const replay = new Replay(traffic);
  const random = randomFrom(isolates);
  const all = Array.from({ length: isolates }, () => replay.isolate(random));
  const intervalMs = 1_000 / rate;
  for (const isolate of all) isolate.nextMs += random() * intervalMs;
  await replayUntil(replay, all, intervalMs, startMs + warmUpMs);
  const before = counted(replay);
  const lengthMs = countedMs(isolates);
  await replayUntil(replay, all, intervalMs, startMs + warmUpMs + lengthMs);
  const after = counted(replay);
  const perHour = (count: keyof BeatBill): number => ((after[count] - before[count]) * hourMs) / lengthMs;
  return {
    beats: perHour("beats"),
    alarms: perHour("alarms"),
    rowsWritten: perHour("rowsWritten"),
    activeSeconds: perHour("activeSeconds"),
  };
}

const counted = ({ beats, alarms, rowsWritten, activeMs }: Replay): BeatBill => ({
  beats,
  alarms,
  rowsWritten,
  activeSeconds: activeMs / 1_000,
});

function recordSample({ statistics: { traffic }, random }: ReplayedIsolate, atMs: number): void {
  const partitionKey = keys[Math.floor(random() * keys.length)] ?? "";
  if (traffic?.includes(partitionKey) === true) {
    traffic.add(policy.name, partitionKey, arrival(atMs));
  }
}

function recordDecision(isolate: ReplayedIsolate): void {
  const { statistics, logsDenials } = isolate;
  isolate.requests++;
  const isDenied = logsDenials && isolate.requests % 10 === 0;
  if (!isDenied) {
    statistics.record(policy.name, "allowed", key, decision, null);
    return;
  }
  const deniedKey = { partitionKey: keys[(isolate.requests / 10) % keys.length] ?? "", cost: 1 };
  statistics.record(policy.name, "denied", deniedKey, denied, null);
  const facts = { policy: policy.name, outcome: "denied", reason: "limit", decision: denied, plain: null } as const;
  statistics.logDenial({ ...facts, key: deniedKey }, null);
}

/** The clock moves in steps of this length. */
const stepMs = 10;

async function replayUntil(
  replay: Replay,
  isolates: readonly ReplayedIsolate[],
  intervalMs: number,
  untilMs: number,
): Promise<void> {
  for (; replay.nowMs < untilMs; replay.nowMs += stepMs) {
    const { beats } = replay;
    let work = 0;
    const waitUntil = (): void => void work++;
    for (const isolate of isolates) {
      if (isolate.nextMs > replay.nowMs) continue;
      isolate.nextMs += 2 * isolate.random() * intervalMs;
      isolate.client.touch(waitUntil);
      recordDecision(isolate);
      recordSample(isolate, replay.nowMs);
    }
    // oxlint-disable-next-line no-await-in-loop
    if (work > 0) await setImmediate();
    // oxlint-disable-next-line no-await-in-loop
    if (replay.beats > beats || work === 0) await replay.runDueAlarm();
  }
}
