/**
 * Alerts for installations without Prometheus: when a policy's share of denials passes a threshold, when decisions by
 * `onError` begin, and when a key passes a percentage of a limit. Each cause has a row, so that alerts survive a
 * restart of the object, and so that a cause is reported at most once a minute.
 */
import type { AlertSettings } from "../../policy/vars/admin.ts";
import { errorText, keyPseudonym, report } from "../../observability/events.ts";
import type { BeatCall, KeyAlert } from "../protocol.ts";
import { type Tally, decisionsIn, denialsIn, fallbacksIn, minuteMs } from "./statistics-rows.ts";
import { jsonOrNull } from "../../validation/json.ts";
import { isRecord } from "../../validation/problems.ts";
import type { Sql } from "./storage.ts";
import type { Task } from "./scheduler.ts";

/** A share of fewer decisions means little. */
const leastDecisions = 20;
/** The most alerts that are raised within a minute. The next one states how many were left out. */
const mostAMinute = 30;

export class Alerts {
  readonly #settings: AlertSettings;
  readonly #rows: AlertRows;
  #omitted = 0;

  constructor(settings: AlertSettings, rows: AlertRows) {
    this.#settings = settings;
    this.#rows = rows;
  }

  /**
   * Raises the alerts of a beat.
   * @param recent the counts of the current and the previous minute, with those of the beat
   */
  observe(call: BeatCall, recent: Tally, nowMs: number): void {
    for (const policy of recent.policies) this.#observePolicy(policy, recent, nowMs);
    for (const policy of this.#rows.activePolicies()) {
      if (!recent.policies.includes(policy)) this.#observePolicy(policy, recent, nowMs);
    }
    for (const alert of call.alerts) this.#observeKey(alert, nowMs);
  }

  /** Both conditions raise one alert when they begin, and none while they last. */
  #observePolicy(policy: string, recent: Tally, nowMs: number): void {
    const counts = recent.of(policy);
    const decisions = decisionsIn(counts);
    const denied = denialsIn(counts);
    const share = decisions === 0 ? 0 : denied / decisions;
    const threshold = this.#settings.deniedShare;
    this.#condition(policy, "denied-share", share > threshold && decisions >= leastDecisions, nowMs, {
      text: `Policy ${policy}: ${percent(share)} of ${decisions} requests were denied within the last two minutes, more than ${percent(threshold)}.`,
      data: { policy, denied, decisions, threshold },
    });
    const fallbacks = fallbacksIn(counts);
    this.#condition(policy, "fallbacks", fallbacks > 0, nowMs, {
      text: `Policy ${policy}: ${fallbacks} of ${decisions} decisions within the last two minutes were made by onError, because a Durable Object did not answer.`,
      data: { policy, fallbacks, decisions },
    });
  }

  #condition(policy: string, type: string, holds: boolean, nowMs: number, content: Omit<AlertContent, "type">): void {
    const cause = `${type} ${policy}`;
    if (!holds) this.#rows.end(cause, nowMs);
    else if (!this.#rows.isActive(cause)) this.#raise(cause, policy, { type, ...content }, nowMs);
  }

  #observeKey({ policy, key, limit, percent: passed }: KeyAlert, nowMs: number): void {
    if (!this.#settings.keys.has(policy)) return;
    this.#raise(
      `key-limit ${policy} ${key} ${limit} ${passed}`,
      null,
      {
        type: "key-limit",
        text: `Policy ${policy}: the key ${keyPseudonym(key)} has used ${passed} % of the limit ${limit}.`,
        data: { policy, key, limit, percent: passed },
      },
      nowMs,
    );
  }

  /** @param active the policy whose condition holds from now on; null for an alert about a single event */
  #raise(cause: string, active: string | null, content: AlertContent, nowMs: number): void {
    if (nowMs - this.#rows.raisedMs(cause) < minuteMs) return;
    if (this.#rows.raisedSince(nowMs - minuteMs) >= mostAMinute) {
      this.#omitted++;
      return;
    }
    const omitted = this.#omitted === 0 ? {} : { omitted: this.#omitted };
    this.#omitted = 0;
    this.#rows.raise(cause, active, { ...content, data: { ...content.data, ...omitted } }, nowMs);
  }
}

const percent = (share: number): string => `${Number((share * 100).toFixed(1))} %`;

export interface AlertContent {
  readonly type: string;
  /** For people: the field that Slack and compatible receivers show. */
  readonly text: string;
  readonly data: Readonly<Record<string, string | number>>;
}

/** An alert that a receiver has not confirmed. */
export interface PendingAlert {
  readonly cause: string;
  /** The same for each attempt, so that a receiver can ignore a repetition. */
  readonly id: string;
  readonly body: string;
  /** Attempts that failed. */
  readonly attempts: number;
}

interface Row {
  readonly raisedMs: number;
  /** The policy whose condition still holds; null when it has ended, or for an alert about a key. */
  readonly active: string | null;
  readonly id: string;
  /** Null when the alert was delivered or given up. */
  readonly body: string | null;
  readonly attempts: number;
  readonly dueMs: number;
}

/** The first attempt is made at once. If the object crashes during it, the alarm repeats it after this time. */
const afterCrashMs = 15_000;
/** How long a row is kept after its alert was raised, at least. */
const keptMs = 3_600_000;

export class AlertRows {
  readonly #sql: Sql;
  /** All rows, by cause. */
  readonly #rows = new Map<string, Row>();

  constructor(sql: Sql) {
    this.#sql = sql;
    sql.exec("CREATE TABLE IF NOT EXISTS alerts (cause TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID");
    for (const { cause, body } of sql
      .exec<{ cause: string; body: string }>("SELECT cause, body FROM alerts")
      .toArray()) {
      const row = rowIn(jsonOrNull(body));
      if (row !== null) this.#rows.set(cause, row);
    }
  }

  isActive(cause: string): boolean {
    return this.#rows.get(cause)?.active != null;
  }

  /** The policies whose conditions still hold. */
  activePolicies(): ReadonlySet<string> {
    return new Set([...this.#rows.values()].flatMap(({ active }) => active ?? []));
  }

  /** When the last alert of this cause was raised. */
  raisedMs(cause: string): number {
    return this.#rows.get(cause)?.raisedMs ?? Number.NEGATIVE_INFINITY;
  }

  /** How many alerts were raised after this instant. */
  raisedSince(fromMs: number): number {
    return [...this.#rows.values()].filter(({ raisedMs }) => raisedMs > fromMs).length;
  }

  raise(cause: string, active: string | null, content: AlertContent, nowMs: number): void {
    const { text, type, data } = content;
    const timestamp = new Date(nowMs).toISOString();
    this.#write(cause, {
      raisedMs: nowMs,
      active,
      id: `msg_${crypto.randomUUID().replaceAll("-", "")}`,
      body: JSON.stringify({ text, type, timestamp, data }),
      attempts: 0,
      dueMs: nowMs + afterCrashMs,
    });
    this.#deleteOld(nowMs);
  }

  /** Notes that the condition of the cause has ended. */
  end(cause: string, nowMs: number): void {
    const row = this.#rows.get(cause);
    if (row?.active == null) return;
    this.#write(cause, { ...row, active: null });
    this.#deleteOld(nowMs);
  }

  /** The alerts to send now: those that were never sent, and those whose next attempt is due. */
  pending(nowMs: number): PendingAlert[] {
    return [...this.#rows].flatMap(([cause, { id, body, attempts, dueMs }]) =>
      body !== null && (attempts === 0 || dueMs <= nowMs) ? [{ cause, id, body, attempts }] : [],
    );
  }

  /** When the next attempt is due; null when nothing is pending. */
  dueAtMs(): number | null {
    const due = [...this.#rows.values()].filter(({ body }) => body !== null);
    return due.length === 0 ? null : Math.min(...due.map(({ dueMs }) => dueMs));
  }

  /** Notes an attempt that failed. The next one is due at `dueMs`. */
  failed({ cause, id }: PendingAlert, dueMs: number): void {
    const row = this.#rows.get(cause);
    if (row?.id === id) this.#write(cause, { ...row, attempts: row.attempts + 1, dueMs });
  }

  /** Notes that an alert was delivered, or given up. */
  done({ cause, id }: PendingAlert): void {
    const row = this.#rows.get(cause);
    if (row?.id === id) this.#write(cause, { ...row, body: null });
  }

  #write(cause: string, row: Row): void {
    this.#sql.exec("INSERT OR REPLACE INTO alerts (cause, body) VALUES (?, ?)", cause, JSON.stringify(row));
    this.#rows.set(cause, row);
  }

  /** Deletes old rows whose conditions have ended and whose alerts need no further attempt. */
  #deleteOld(nowMs: number): void {
    for (const [cause, { raisedMs, active, body }] of this.#rows) {
      if (active !== null || body !== null || nowMs - raisedMs <= keptMs) continue;
      this.#sql.exec("DELETE FROM alerts WHERE cause = ?", cause);
      this.#rows.delete(cause);
    }
  }
}

function rowIn(stored: unknown): Row | null {
  if (!isRecord(stored)) return null;
  const { raisedMs, active, id, body, attempts, dueMs } = stored;
  const isRow =
    typeof raisedMs === "number" &&
    (typeof active === "string" || active === null) &&
    typeof id === "string" &&
    (typeof body === "string" || body === null) &&
    typeof attempts === "number" &&
    typeof dueMs === "number";
  return isRow ? { raisedMs, active, id, body, attempts, dueMs } : null;
}

/** The pauses after each failed attempt. After the last attempt, the alert is given up. */
const pausesMs = [10_000, 60_000, 300_000, 900_000];
const timeoutMs = 10_000;

export class AlertDelivery implements Task {
  readonly #settings: Pick<AlertSettings, "webhook" | "secret">;
  readonly #rows: AlertRows;
  readonly #fetch: typeof fetch;
  /** The ids of alerts whose attempt is under way. */
  readonly #underWay = new Set<string>();

  constructor(
    settings: Pick<AlertSettings, "webhook" | "secret">,
    rows: AlertRows,
    send: typeof fetch = (...request) => fetch(...request),
  ) {
    this.#settings = settings;
    this.#rows = rows;
    this.#fetch = send;
  }

  dueAtMs(): number | null {
    return this.#rows.dueAtMs();
  }

  /** Sends the alerts that are due. Never throws because of the receiver. */
  async run(nowMs: number): Promise<void> {
    const due = this.#rows.pending(nowMs).filter(({ id }) => !this.#underWay.has(id));
    await Promise.all(due.map((alert) => this.#attempt(alert, nowMs)));
  }

  async #attempt(alert: PendingAlert, nowMs: number): Promise<void> {
    this.#underWay.add(alert.id);
    const error = await this.#post(alert, nowMs).catch(errorText);
    this.#underWay.delete(alert.id);
    if (error === null) {
      this.#rows.done(alert);
      return;
    }
    const pauseMs = pausesMs[alert.attempts];
    if (pauseMs !== undefined) {
      this.#rows.failed(alert, nowMs + pauseMs);
      return;
    }
    this.#rows.done(alert);
    report({ event: "alert-undelivered", cause: typeOf(alert), error });
  }

  /** Returns null when the receiver confirms the alert, else the error. */
  async #post({ id, body }: PendingAlert, nowMs: number): Promise<string | null> {
    const { webhook, secret } = this.#settings;
    const timestamp = String(Math.floor(nowMs / 1_000));
    const headers = new Headers({
      "Content-Type": "application/json",
      "User-Agent": "Headgate",
      "webhook-id": id,
      "webhook-timestamp": timestamp,
    });
    if (secret !== null) {
      headers.set("webhook-signature", await signature(secret, `${id}.${timestamp}.${body}`));
    }
    const response = await this.#fetch(webhook.href, {
      method: "POST",
      headers,
      body,
      // Following a redirect would send the alert to an address that is not configured.
      redirect: "manual",
      signal: AbortSignal.timeout(timeoutMs),
    });
    await response.body?.cancel();
    return response.ok ? null : `the receiver answered with the status ${response.status}`;
  }
}

/** The type of an alert: the first word of its cause, which names no key. */
const typeOf = ({ cause }: PendingAlert): string => cause.split(" ", 1)[0] ?? "";

/** `v1,` and the HMAC-SHA-256 in base64. */
async function signature(secret: Uint8Array<ArrayBuffer>, text: string): Promise<string> {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", secret, algorithm, false, ["sign"]);
  const signed = await crypto.subtle.sign("HMAC", key, new TextEncoder().encode(text));
  return `v1,${btoa(String.fromCharCode(...new Uint8Array(signed)))}`;
}
