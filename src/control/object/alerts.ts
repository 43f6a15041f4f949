/**
 * Alerts for installations without Prometheus: when a policy's share of denials passes a threshold, when decisions by
 * `onError` begin, and when a key passes a percentage of a limit. Each cause has a row, so that alerts survive a
 * restart of the object, and so that a cause is reported at most once a minute.
 */
import type { AlertSettings } from "../../policy/vars/admin.ts";
import { errorText, keyPseudonym, report } from "../../observability/events.ts";
import type { BeatCall } from "../protocol.ts";
import { type Counts, type Tally, decisionsIn, denialsIn, fallbacksIn, hourMs, minuteMs } from "./statistics-rows.ts";
import { isNumber, parsedRecord, type Sql } from "./storage.ts";
import type { Task } from "./scheduler.ts";

/** A share of fewer decisions means little. */
const leastDecisions = 20;
/** The most alerts that are raised within a minute. The next one states how many were left out. */
const mostAMinute = 30;
/** The first attempt is made at once. If the object crashes during it, the alarm repeats it after this time. */
const afterCrashMs = 15_000;
/** The pauses after each failed attempt. After the last attempt, the alert is given up. */
const pausesMs = [10_000, 60_000, 300_000, 900_000];
const timeoutMs = 10_000;
/** How long a row is kept after its alert was raised, at least. */
const keptMs = hourMs;

interface AlertContent {
  readonly type: string;
  /** For people: the field that Slack and compatible receivers show. */
  readonly text: string;
  readonly data: Readonly<Record<string, string | number>>;
}

interface AlertCondition extends AlertContent {
  readonly holds: boolean;
}

interface Row {
  readonly raisedMs: number;
  /** The policy whose condition still holds; null when it has ended, or for an alert about a key. */
  readonly active: string | null;
  /** The same for each attempt, so that a receiver can ignore a repetition. */
  readonly id: string;
  /** Null when the alert was delivered or given up. */
  readonly body: string | null;
  /** Attempts that failed. */
  readonly attempts: number;
  readonly dueMs: number;
}

const isTextOrNull = (stored: unknown): boolean => typeof stored === "string" || stored === null;
const isRow = (stored: Partial<Row>): stored is Row =>
  [stored.raisedMs, stored.attempts, stored.dueMs].every(isNumber) &&
  typeof stored.id === "string" &&
  [stored.active, stored.body].every(isTextOrNull);

export class Alerts implements Task {
  readonly #settings: AlertSettings;
  readonly #sql: Sql;
  readonly #fetch: typeof fetch;
  /** All rows, by cause. */
  readonly #rows = new Map<string, Row>();
  /** The ids of alerts whose attempt is under way. */
  readonly #underWay = new Set<string>();
  #omitted = 0;

  constructor(settings: AlertSettings, sql: Sql, send: typeof fetch = (...request) => fetch(...request)) {
    this.#settings = settings;
    this.#sql = sql;
    this.#fetch = send;
    sql.exec("CREATE TABLE IF NOT EXISTS alerts (cause TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID");
    const stored = sql.exec<{ cause: string; body: string }>("SELECT cause, body FROM alerts").toArray();
    for (const { cause, body } of stored) {
      const row = parsedRecord<Row>(body);
      if (isRow(row)) this.#rows.set(cause, row);
    }
  }

  /**
   * Raises the alerts of a beat. A condition raises one when it begins, and none while it lasts.
   * @param recent the counts of the current and the previous minute, with those of the beat
   */
  observe({ alerts }: BeatCall, recent: Tally, nowMs: number): void {
    const active = [...this.#rows.values()].flatMap((row) => row.active ?? []);
    for (const policy of new Set([...recent.policies, ...active])) {
      for (const { holds, ...content } of this.#conditions(policy, recent.of(policy))) {
        const cause = `${content.type} ${policy}`;
        const row = this.#rows.get(cause);
        if (row?.active == null) {
          if (holds) this.#raise(cause, policy, content, nowMs);
        } else if (!holds) this.#write(cause, { ...row, active: null });
      }
    }
    for (const { policy, key, limit, percent } of alerts) {
      if (!this.#settings.keys.has(policy)) continue;
      const text = `Policy ${policy}: the key ${keyPseudonym(key)} has used ${percent} % of the limit ${limit}.`;
      const content = { type: "key-limit", text, data: { policy, key, limit, percent } };
      this.#raise(`key-limit ${policy} ${key} ${limit} ${percent}`, null, content, nowMs);
    }
    this.#deleteOld(nowMs);
  }

  #conditions(policy: string, counts: Counts): AlertCondition[] {
    const threshold = this.#settings.deniedShare;
    const decisions = decisionsIn(counts);
    const denied = denialsIn(counts);
    const share = decisions === 0 ? 0 : denied / decisions;
    const fallbacks = fallbacksIn(counts);
    return [
      {
        type: "denied-share",
        holds: share > threshold && decisions >= leastDecisions,
        text: `Policy ${policy}: ${percentText(share)} of ${decisions} requests were denied within the last two minutes, more than ${percentText(threshold)}.`,
        data: { policy, denied, decisions, threshold },
      },
      {
        type: "fallbacks",
        holds: fallbacks > 0,
        text: `Policy ${policy}: ${fallbacks} of ${decisions} decisions within the last two minutes were made by onError, because a Durable Object did not answer.`,
        data: { policy, fallbacks, decisions },
      },
    ];
  }

  /** @param active the policy whose condition holds from now on; null for an alert about a single event */
  #raise(cause: string, active: string | null, { text, type, data }: AlertContent, nowMs: number): void {
    const isRecent = ({ raisedMs }: Row): boolean => nowMs - raisedMs < minuteMs;
    const known = this.#rows.get(cause);
    if (known !== undefined && isRecent(known)) return;
    if ([...this.#rows.values()].filter(isRecent).length >= mostAMinute) {
      this.#omitted++;
      return;
    }
    const omitted = this.#omitted === 0 ? {} : { omitted: this.#omitted };
    this.#omitted = 0;
    const timestamp = new Date(nowMs).toISOString();
    this.#write(cause, {
      raisedMs: nowMs,
      active,
      id: `msg_${crypto.randomUUID().replaceAll("-", "")}`,
      body: JSON.stringify({ text, type, timestamp, data: { ...data, ...omitted } }),
      attempts: 0,
      dueMs: nowMs + afterCrashMs,
    });
  }

  dueAtMs(): number | null {
    const due = [...this.#rows.values()].filter(({ body }) => body !== null);
    return due.length === 0 ? null : Math.min(...due.map(({ dueMs }) => dueMs));
  }

  /** Sends the alerts that were never sent, or whose next attempt is due. Never throws because of the receiver. */
  async run(nowMs: number): Promise<void> {
    await Promise.all(
      [...this.#rows].map(async ([cause, { id, body, attempts, dueMs }]) => {
        const isDue = (attempts === 0 || dueMs <= nowMs) && !this.#underWay.has(id);
        if (body !== null && isDue) await this.#attempt(cause, { id, body, attempts }, nowMs);
      }),
    );
  }

  async #attempt(
    cause: string,
    { id, body, attempts }: Pick<Row, "id" | "attempts"> & { readonly body: string },
    nowMs: number,
  ): Promise<void> {
    this.#underWay.add(id);
    const error = await this.#post(id, body, nowMs).catch(errorText);
    this.#underWay.delete(id);
    const pauseMs = error === null ? undefined : pausesMs[attempts];
    if (error !== null && pauseMs === undefined) {
      // The first word of a cause is its type. Others may name a key.
      report({ event: "alert-undelivered", cause: cause.split(" ", 1)[0] ?? "", error });
    }
    const row = this.#rows.get(cause);
    // The cause may have another alert by now.
    if (row?.id !== id) return;
    const next = pauseMs === undefined ? { body: null } : { attempts: attempts + 1, dueMs: nowMs + pauseMs };
    this.#write(cause, { ...row, ...next });
  }

  /** Returns null when the receiver confirms the alert, else the error. */
  async #post(id: string, body: string, nowMs: number): Promise<string | null> {
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

const percentText = (share: number): string => `${Number((share * 100).toFixed(1))} %`;

/** `v1,` and the HMAC-SHA-256 in base64. */
async function signature(secret: Uint8Array<ArrayBuffer>, text: string): Promise<string> {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", secret, algorithm, false, ["sign"]);
  const signed = await crypto.subtle.sign("HMAC", key, new TextEncoder().encode(text));
  return `v1,${btoa(String.fromCharCode(...new Uint8Array(signed)))}`;
}
