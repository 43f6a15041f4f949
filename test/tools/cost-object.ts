/** An object in virtual time whose memory is lost as on Cloudflare, and what it is billed for. */
import type { CheckCall, CheckReply } from "../../src/limiter/protocol.ts";
import { MemoryStorage } from "../fakes/memory-storage.ts";
import { VirtualObject } from "../fakes/virtual-object.ts";

/** An object without an event or a timer loses its memory after so long. */
const idleMemoryMs = 10_000;

/** Assumed of whatever an object is called for. */
const callMs = 1;

export class CostedObject extends VirtualObject<MemoryStorage> {
  calls = 0;
  /** While something ran in it, or a timer kept it from hibernating: what runs side by side counts once. */
  activeMs = 0;
  #accountedMs = 0;

  constructor() {
    super(new MemoryStorage(), 0);
  }

  /** To be called in the order of time. */
  async check(atMs: number, call: CheckCall): Promise<CheckReply> {
    await this.pass(atMs - this.nowMs);
    this.calls++;
    const verdict = this.limiter.check(call);
    this.#account(atMs + callMs);
    return verdict;
  }

  /** What happens now finds what was in memory, if that is not lost. */
  protected override reach(nowMs: number): void {
    if (this.hasTimer) this.#account(nowMs);
    else if (nowMs - this.nowMs >= idleMemoryMs) this.crash();
    super.reach(nowMs);
    this.#accountedMs = Math.max(this.#accountedMs, this.nowMs);
  }

  protected override async fireAlarm(): Promise<void> {
    await super.fireAlarm();
    this.#account(this.nowMs + callMs);
  }

  /** It was active from the end of what is accounted for. */
  #account(untilMs: number): void {
    this.activeMs += Math.max(0, untilMs - this.#accountedMs);
    this.#accountedMs = Math.max(this.#accountedMs, untilMs);
  }
}
