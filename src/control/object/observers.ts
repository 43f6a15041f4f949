/** The observers of beats: statistics, the tail, alerts and the export of counts. */
import type { AlertSettings } from "../../policy/vars/admin.ts";
import { errorText, report } from "../../observability/events.ts";
import { type BeatCall, type BeatReply, outcomeNames } from "../protocol.ts";
import { Alerts } from "./alerts.ts";
import type { Task } from "./scheduler.ts";
import { StatisticsStore } from "./statistics.ts";
import type { ControlStorage } from "./storage.ts";
import { Tail, type TailHost } from "./tail.ts";
import { type Tally, decisionsIn, minuteMs } from "./statistics-rows.ts";

export interface ObserverSettings {
  /** Null when no alerts are sent. */
  readonly alerts: AlertSettings | null;
  /** The most denials that are kept for each policy; null when none are logged. Default: null. */
  readonly mostDenials?: number | null;
  /** The binding `ANALYTICS`; null without it. */
  readonly dataset: Dataset | null;
  readonly sockets: TailHost;
  /** Keeps the object alive until the work is done. */
  readonly waitUntil: (work: Promise<unknown>) => void;
  /** Sends alerts. Default: the platform's. */
  readonly fetch?: typeof fetch;
}

export class Observers {
  readonly statistics: StatisticsStore;
  readonly tail: Tail;
  readonly #export: AnalyticsExport;
  readonly #alerts: Alerts | null;
  readonly #waitUntil: ObserverSettings["waitUntil"];

  constructor(storage: ControlStorage, settings: ObserverSettings, nowMs: number) {
    this.#export = new AnalyticsExport(settings.dataset);
    this.statistics = new StatisticsStore(storage, nowMs, {
      mostDenials: settings.mostDenials ?? null,
      onMinute: (atMs, minute) => this.#export.add(atMs, minute),
    });
    this.tail = new Tail(storage.sql, settings.sockets);
    this.#waitUntil = settings.waitUntil;
    this.#alerts = settings.alerts && new Alerts(settings.alerts, storage.sql, settings.fetch);
  }

  /** Call `Scheduler.ensure` afterwards: an alert may have to be sent again. */
  recordBeat(call: BeatCall, nowMs: number): Pick<BeatReply, "storedSeq" | "isWatched" | "isTailed" | "recorded"> {
    const isWatched = this.tail.isWatched(nowMs);
    const storedSeq = this.statistics.record(call, nowMs, isWatched);
    this.tail.send(call.tail, nowMs);
    this.#export.flush();
    this.#alert(call, nowMs);
    const recorded = this.statistics.recordings.listFor(call.recordedVersion ?? 0, nowMs);
    return { storedSeq, isWatched, isTailed: this.tail.isTailed, ...(recorded !== null && { recorded }) };
  }

  /** A failure of alerts must not fail the beat, which has rules to deliver. */
  #alert(call: BeatCall, nowMs: number): void {
    if (this.#alerts === null) return;
    try {
      this.#alerts.observe(call, this.statistics.recent(nowMs), nowMs);
      this.#waitUntil(this.#alerts.run(nowMs).catch(reportFailure));
    } catch (error) {
      reportFailure(error);
    }
  }

  get tasks(): readonly Task[] {
    return this.#alerts === null ? [this.statistics] : [this.statistics, this.#alerts];
  }
}

const reportFailure = (error: unknown): void => report({ event: "control-plane-failed", error: errorText(error) });

export interface DataPoint {
  readonly indexes: [string];
  readonly blobs: [string];
  readonly doubles: number[];
}

/** The methods of `AnalyticsEngineDataset`. */
export interface Dataset {
  writeDataPoint(point: DataPoint): void;
}

/** The doubles of a point, in their order: double1 is the first. The outcomes are last, so that a new one moves no other. */
export const exportedDoubles = ["minute", "near-limit", "latency-sum-ms", "latency-count", ...outcomeNames] as const;

/** The platform accepts this number of points in one event. */
const mostPoints = 25;
/** The points of about an hour for 25 policies. */
const mostPending = 1_500;

export class AnalyticsExport {
  readonly #dataset: Dataset | null;
  #pending: DataPoint[] = [];

  /** @param dataset the binding `ANALYTICS`, which is optional */
  constructor(dataset: Dataset | null) {
    this.#dataset = dataset;
  }

  add(atMs: number, minute: Tally): void {
    if (this.#dataset === null) return;
    for (const policy of minute.policies) {
      const counts = minute.of(policy);
      if (decisionsIn(counts) === 0) continue;
      const doubles = [
        atMs / minuteMs,
        counts.nearLimit,
        counts.latencySumMs,
        counts.latency.reduce((sum, [, decisions]) => sum + decisions, 0),
        ...outcomeNames.map((outcome) => counts.outcomes[outcome] ?? 0),
      ];
      // The index has at most 96 bytes.
      this.#pending.push({ indexes: [policy.slice(0, 96)], blobs: [policy], doubles });
    }
    this.#pending = this.#pending.slice(-mostPending);
  }

  /** Writes as many points as one event may write. Call this once in each beat. */
  flush(): void {
    for (const point of this.#pending.splice(0, mostPoints)) this.#dataset?.writeDataPoint(point);
  }
}
