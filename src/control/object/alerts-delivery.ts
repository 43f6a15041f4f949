/**
 * Sends alerts to the webhook, signed as Standard Webhooks defines it. An attempt that fails is repeated by the
 * object's alarm, with growing pauses over about 20 minutes.
 */
import type { AlertSettings } from "../../policy/vars/admin.ts";
import { errorText, report } from "../../observability/events.ts";
import type { AlertRows, PendingAlert } from "./alerts-storage.ts";
import type { Task } from "./scheduler.ts";

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
