/** The observers of beats: statistics, the tail, alerts and the export of counts. */
import type { AlertSettings } from "../../policy/vars/admin.ts";
import { errorText, report } from "../../observability/events.ts";
import type { BeatCall, BeatReply } from "../protocol.ts";
import { AlertDelivery } from "./alerts-delivery.ts";
import { AlertRows } from "./alerts-storage.ts";
import { Alerts } from "./alerts.ts";
import { metricsText, type RulesMetrics } from "./metrics.ts";
import type { Task } from "./scheduler.ts";
import { AnalyticsExport, type Dataset } from "./statistics-export.ts";
import { StatisticsStore } from "./statistics.ts";
import type { ControlStorage } from "./storage.ts";
import { Tail, type TailHost } from "./tail.ts";

export interface ObserverSettings {
  /** Null when no alerts are sent. */
  readonly alerts: AlertSettings | null;
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
  readonly #alerts: Alerts | null = null;
  readonly #delivery: AlertDelivery | null = null;
  readonly #waitUntil: ObserverSettings["waitUntil"];

  constructor(storage: ControlStorage, settings: ObserverSettings, nowMs: number) {
    this.#export = new AnalyticsExport(settings.dataset);
    this.statistics = new StatisticsStore(storage, nowMs, (atMs, minute) => this.#export.add(atMs, minute));
    this.tail = new Tail(storage.sql, settings.sockets);
    this.#waitUntil = settings.waitUntil;
    if (settings.alerts !== null) {
      const rows = new AlertRows(storage.sql);
      this.#alerts = new Alerts(settings.alerts, rows);
      this.#delivery = new AlertDelivery(settings.alerts, rows, settings.fetch);
    }
  }

  /** Call `Scheduler.ensure` afterwards: an alert may have to be sent again. */
  recordBeat(call: BeatCall, nowMs: number): Pick<BeatReply, "storedSeq" | "isWatched" | "isTailed"> {
    const isWatched = this.tail.isWatched(nowMs);
    const storedSeq = this.statistics.record(call, nowMs, isWatched);
    this.tail.send(call.tail, nowMs);
    this.#export.flush();
    this.#alert(call, nowMs);
    return { storedSeq, isWatched, isTailed: this.tail.isTailed };
  }

  metrics(rules: RulesMetrics, nowMs: number): string {
    const { statistics } = this;
    const totals = statistics.totals(nowMs);
    return metricsText({ ...rules, totals, lastBeatMs: statistics.lastBeatMs });
  }

  /** A failure of alerts must not fail the beat, which has rules to deliver. */
  #alert(call: BeatCall, nowMs: number): void {
    if (this.#alerts === null || this.#delivery === null) return;
    try {
      this.#alerts.observe(call, this.statistics.recent(nowMs), nowMs);
      this.#waitUntil(this.#delivery.run(nowMs).catch(reportFailure));
    } catch (error) {
      reportFailure(error);
    }
  }

  get tasks(): readonly Task[] {
    return [this.statistics, ...(this.#delivery === null ? [] : [this.#delivery])];
  }
}

const reportFailure = (error: unknown): void => report({ event: "control-plane-failed", error: errorText(error) });
