/** A Durable Object in virtual time that loses its memory as on Cloudflare, and counts what Cloudflare bills. */
import type { CheckCall, CheckReply } from "../../src/limiter/protocol.ts";
import { CountedStorage } from "../fakes/counted-storage.ts";
import { VirtualObject } from "../fakes/virtual-object.ts";

/** An object without an event or a timer loses its memory after this time. */
const idleMemoryMs = 10_000;

/** The assumed duration of each event. */
const callMs = 1;

export class CostedObject extends VirtualObject<CountedStorage> {
  calls = 0;
  /** The time with an event or a pending timer. Concurrent events count once. */
  activeMs = 0;
  #accountedMs = 0;

  constructor() {
    super(new CountedStorage(), 0);
  }

  /** Calls must be in the order of time. */
  async check(atMs: number, call: CheckCall): Promise<CheckReply> {
    await this.pass(atMs - this.nowMs);
    this.calls++;
    const verdict = this.limiter.check(call);
    this.#account(atMs + callMs);
    return verdict;
  }

  /** Memory survives until `nowMs` unless the object was idle for too long. */
  protected override reach(nowMs: number): void {
    if (this.hasTimer) this.#account(nowMs);
    else if (nowMs - this.nowMs >= idleMemoryMs) this.crash();
    super.reach(nowMs);
    this.#accountedMs = Math.max(this.#accountedMs, this.nowMs);
  }

  override async runAlarm(): Promise<void> {
    await super.runAlarm();
    this.#account(this.nowMs + callMs);
  }

  /** Adds the active time until this instant, without what has already been counted. */
  #account(untilMs: number): void {
    this.activeMs += Math.max(0, untilMs - this.#accountedMs);
    this.#accountedMs = Math.max(this.#accountedMs, untilMs);
  }
}
