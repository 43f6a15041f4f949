/** An object in plain Node, with storage in memory and a clock that the test sets. */
import type { Charge, LeaseReply, ReturnReply, SliceReturned } from "../../src/limiter/protocol.ts";
import { call, remainingOf } from "./calls.ts";
import { startMs } from "./isolate.ts";
import { CountedStorage } from "./counted-storage.ts";
import { VirtualObject } from "./virtual-object.ts";

export class TestObject extends VirtualObject<CountedStorage> {
  #slices = 0;

  constructor() {
    super(new CountedStorage(), startMs);
  }

  /** Sets the clock to `offsetMs` after `startMs`, even if that sets it back. Fires neither timers nor the alarm. */
  at(offsetMs: number): void {
    this.nowMs = startMs + offsetMs;
  }

  /** Lets time pass and fires the timers that are due, but not the alarm. */
  advance(ms: number): void {
    const endMs = this.nowMs + ms;
    this.fireTimers(endMs);
    this.reach(endMs);
  }

  /** Evicts the object: writes pending changes at the time that the clock shows, then loses the memory. */
  override async evict(): Promise<void> {
    this.fireTimers();
    await this.alarmAtMs();
    this.crash();
  }

  /** The remaining units of the first limit of a charge. */
  remaining(each: Charge, key = "k"): number | undefined {
    return remainingOf(this.limiter.look(call(each, key)).decisions);
  }

  /** Borrows a slice of the key `k`, with a new id unless one is given. */
  lease(
    charges: Charge | readonly Charge[],
    { units = 10, ttlMs = 5_000, id = `slice-${this.#slices++}`, returned = [] as SliceReturned[] } = {},
  ): LeaseReply & { id: string } {
    const wanted = { id, units, ttlMs };
    return { ...this.limiter.lease({ ...call(charges), wanted, returned }), id };
  }

  giveBack(id: string, used: number): ReturnReply {
    return this.limiter.giveBackSlices({ key: "k", returned: [{ id, used }] });
  }

  /** The names of the stored rows, and the time of the alarm in milliseconds after `startMs`. */
  async stored(): Promise<[string[], number | null]> {
    const alarmAtMs = await this.alarmAtMs();
    const names = [...this.storage.rows.keys()].toSorted();
    return [names, alarmAtMs === null ? null : alarmAtMs - startMs];
  }
}
