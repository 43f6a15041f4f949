/**
 * Alerts for installations without Prometheus: when a policy's share of denials passes a threshold, when decisions by
 * `onError` begin, and when a key passes a percentage of a limit. Each cause has a row, so that alerts survive a
 * restart of the object, and so that a cause is reported at most once a minute. alerts-delivery.ts sends them.
 */
import type { AlertSettings } from "../../policy/vars/admin.ts";
import { keyPseudonym } from "../../observability/events.ts";
import type { BeatCall, KeyAlert } from "../protocol.ts";
import { AlertRows, type AlertContent } from "./alerts-storage.ts";
import { decisionsIn, denialsIn, fallbacksIn, type Tally } from "./statistics-tally.ts";
import { minuteMs } from "./statistics-rows.ts";

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
