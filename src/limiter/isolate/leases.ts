/**
 * Leases: slices of keys' quotas that this isolate borrows and spends without calling the object.
 *
 * 1. A check that the object decides also requests a slice when the key's demand is high enough.
 * 2. The object holds the slice: at each decision, it counts the lent units as spent. The isolate spends the slice for up to
 *    one second, counted from the request, so the slice never ends later than the object assumes.
 * 3. When the slice is low, a call that spends nothing borrows the next one.
 * 4. Unused units go back when the slice's second is over. A fully used slice is returned with the next call.
 * 5. The object books the used units at the time of the return. It books a slice that is not returned in time as fully used.
 * 6. A spend from a slice that is given back lowers the slice's used units. If the slice was returned before, the object
 *    refunds the spend.
 */
import { BoundedMap } from "../../policy/caches.ts";
import { sleep, type WaitUntil } from "../clock.ts";
import type { CheckReply, LeaseReply, ReturnReply, Settlement, SliceReturned, SliceWanted } from "../protocol.ts";
import type { IsolateParts } from "./decide-strict.ts";
import { type BookedSpend, callOf, refund, timeoutOf } from "./key-group.ts";
import { type BorrowedSlice, Lease, provisionalGraceMs, returnBy, spendableMs } from "./lease.ts";
import { RequestScope } from "./newer-rules-retry.ts";
import { hasChargeTexts, type KeyCheck, type Outcome, type Spend } from "./outcome.ts";

/** Bound the memory of an isolate. The slices of an evicted lease are returned at once. */
const maximumKeys = 1_024;
const maximumLeasesPerKey = 16;
const maximumBytes = 4_000_000;
/** Approximate memory of a lease, and of each limit with its decision, in bytes. */
const leaseBytes = 1_000;
const limitBytes = 400;
/**
 * The most slices per second that an isolate requests for keys that have no slice. A request for a slice takes about
 * 10 KB of memory until the slice is returned.
 */
const maximumRequested = 512;

const returnTimeoutMs = 1_000;
/**
 * How long a request waits for the settlement of a slice that another request returns. This is longer than such a call
 * takes. Without a settlement, a spend stays charged.
 */
const settledWithinMs = 5_000;

const bytesOf = (leases: readonly Lease[]): number =>
  leases.reduce((sum, { limitCount }) => sum + leaseBytes + limitCount * limitBytes, 0);

export class Leases {
  readonly #isolate: Pick<IsolateParts, "clock" | "caller" | "denyCache" | "local">;
  /** The leases of each key, the most recently used first. */
  readonly #byKey = new BoundedMap<readonly Lease[]>(maximumKeys, { mostBytes: maximumBytes, bytesOf });
  #requested = 0;
  #requestedSinceMs = 0;

  constructor(isolate: Pick<IsolateParts, "clock" | "caller" | "denyCache" | "local">) {
    this.#isolate = isolate;
  }

  /**
   * Spends from a slice, all or nothing.
   * @returns null when no slice has enough units left, so that the object must decide
   */
  decide(check: KeyCheck): readonly Outcome[] | null {
    const { clock, local } = this.#isolate;
    const { group, result, scope, provisionalMs } = check;
    const { waitUntil } = scope;
    const lease = this.#leaseOf(group, waitUntil);
    // All costs of a leased group are equal.
    const cost = group[0]?.cost ?? 0;
    const nowMs = clock.now();
    const slice = lease.spend(cost, nowMs);
    if (slice === null) return null;
    let provisionalUnits = provisionalMs > 0 ? cost : 0;
    slice.provisionalUnits += provisionalUnits;
    const endProvisional = (): void => {
      slice.provisionalUnits -= provisionalUnits;
      provisionalUnits = 0;
    };
    if (lease.isLow(nowMs) && !lease.isRequesting(group, nowMs)) waitUntil(this.#borrowNext(lease, group, waitUntil));
    const spends = lease.ruled(group);
    local.count(check, spends);
    void result.add({
      finalize: () => {
        endProvisional();
        if (lease.isLeftOver(slice)) waitUntil(this.#returnEnded(lease));
      },
      giveBack: async () => {
        endProvisional();
        await refund(this.#isolate, await this.#giveBack(lease, slice, spends, waitUntil));
      },
    });
    return lease.outcomes(group, nowMs);
  }

  /** @returns the spends that the object has booked and must refund */
  async #giveBack(
    lease: Lease,
    slice: BorrowedSlice,
    group: readonly Spend[],
    waitUntil: WaitUntil,
  ): Promise<readonly BookedSpend[]> {
    const wasReturned = slice.isReturned;
    if (!wasReturned) {
      slice.used -= group[0]?.cost ?? 0;
      await this.#ensureReturned(lease, slice, waitUntil);
    }
    const settlement = await slice.settlement.wait(this.#isolate.clock, settledWithinMs, waitUntil);
    if (settlement === null) return [];
    return group.flatMap((spend): BookedSpend[] => {
      const bookedAtMs = instantOf(settlement, spend);
      // The spend was subtracted before the slice was returned, so the object never booked it.
      if (bookedAtMs !== null && !wasReturned) return [];
      // No instant means that the slice was returned too late, and that the object has booked it whole.
      const spentAtMs = bookedAtMs ?? instantOf(slice.expiry, spend);
      return spentAtMs === null ? [] : [{ ...spend, spentAtMs }];
    });
  }

  /** Returns the slice unless another request does: the other requests may have ended, and none may follow. */
  async #ensureReturned(lease: Lease, slice: BorrowedSlice, waitUntil: WaitUntil): Promise<void> {
    if (lease.isSpendable(slice)) {
      const returnedAtMs = slice.endsAtMs + 2 * provisionalGraceMs;
      await slice.settlement.wait(this.#isolate.clock, returnedAtMs - this.#isolate.clock.now(), waitUntil);
      lease.retire(this.#isolate.clock.now());
    }
    if (!slice.isReturned) await this.#returnEnded(lease);
  }

  forget(partitionKey: string): void {
    this.#byKey.delete(partitionKey);
  }

  /**
   * Lets the object decide, and requests a slice when the demand is high enough. One request is under way at a time.
   * @returns null when the object does not answer in time
   */
  async check(check: KeyCheck, settleLate: (reply: CheckReply) => unknown): Promise<LeaseReply | null> {
    const lease = this.#leaseOf(check.group, check.scope.waitUntil);
    const wanted = this.#hasRoom() ? lease.wantedSlice(check.group, this.#isolate.clock.now()) : null;
    if (wanted !== null) this.#requested++;
    return this.#call(lease, check, wanted, settleLate);
  }

  /** Whether the isolate may request a slice for one more key. */
  #hasRoom(): boolean {
    const nowMs = this.#isolate.clock.now();
    const sinceMs = nowMs - this.#requestedSinceMs;
    if (sinceMs >= spendableMs || sinceMs < 0) {
      this.#requested = 0;
      this.#requestedSinceMs = nowMs;
    }
    return this.#requested < maximumRequested;
  }

  async #borrowNext(lease: Lease, group: readonly Spend[], waitUntil: WaitUntil): Promise<void> {
    const look = {
      group: group.map((spend) => ({ ...spend, cost: 0 })),
      provisionalMs: 0,
      // Newer rules are adopted with the next check.
      scope: new RequestScope(waitUntil),
    };
    await this.#call(lease, look, lease.nextSlice(), null);
  }

  /** @param settleLate handles the check's spend when the reply arrives after the deadline; null when no request waits */
  async #call(
    lease: Lease,
    { group, provisionalMs, scope }: Pick<KeyCheck, "group" | "provisionalMs" | "scope">,
    wanted: SliceWanted | null,
    settleLate: ((reply: CheckReply) => unknown) | null,
  ): Promise<LeaseReply | null> {
    const { waitUntil } = scope;
    const calledAtMs = this.#isolate.clock.now();
    const slices = lease.returnable(calledAtMs);
    if (wanted !== null) lease.requestedAtMs = calledAtMs;
    const call = { ...callOf(group, provisionalMs), wanted, returned: slices.map(returnedOf) };
    const reply = await this.#isolate.caller.call<LeaseReply>({
      name: "lease",
      location: lease.location,
      policies: group.map(({ policy }) => policy.name),
      ...scope.callTime(timeoutOf(group), calledAtMs),
      isBackground: settleLate === null,
      send: (stub) => returnBy(slices, () => stub.lease(call)),
      late: {
        waitUntil,
        settle: (late) => {
          // Too little time is left to spend the slice, so it is returned unused.
          const unused = wanted === null ? [] : [lease.sliceOf(wanted, late, calledAtMs)];
          return Promise.all([settleLate?.(late), this.#return(lease, unused)]);
        },
      },
    });
    if (wanted !== null && lease.requestedAtMs === calledAtMs) lease.requestedAtMs = null;
    if (reply === null) return null;
    lease.remove(slices);
    if (wanted !== null && reply.lentUnits > 0) {
      const slice = lease.sliceOf(wanted, reply, calledAtMs);
      lease.add(slice, reply, this.#isolate.clock.now());
      waitUntil(this.#returnAt(lease, slice.endsAtMs));
    }
    return reply;
  }

  /** Returns unused units when the slice ends. A fully used slice waits for the next call. */
  async #returnAt(lease: Lease, endsAtMs: number): Promise<void> {
    await sleep(this.#isolate.clock, Math.max(0, endsAtMs - this.#isolate.clock.now()));
    lease.retire(this.#isolate.clock.now());
    if (lease.hasProvisional) await sleep(this.#isolate.clock, provisionalGraceMs);
    if (lease.hasUnused) await this.#returnEnded(lease);
  }

  async #returnEnded(lease: Lease): Promise<void> {
    const slices = lease.returnable(this.#isolate.clock.now());
    lease.remove(slices);
    await this.#return(lease, slices);
  }

  async #return(lease: Lease, slices: readonly BorrowedSlice[]): Promise<void> {
    if (slices.length === 0) return;
    const call = { key: lease.key, returned: slices.map(returnedOf) };
    await this.#isolate.caller.call<ReturnReply>({
      name: "return",
      location: lease.location,
      policies: lease.policies,
      timeoutMs: returnTimeoutMs,
      isRepeatable: true,
      send: (stub) => returnBy(slices, () => stub.giveBackSlices(call)),
    });
  }

  #leaseOf(group: readonly Spend[], waitUntil: WaitUntil): Lease {
    const [first] = group;
    if (first === undefined) throw new RangeError("a group has at least one spend");
    const leases = this.#byKey.get(first.partitionKey) ?? [];
    const known = leases.find(({ texts }) => hasChargeTexts(group, texts));
    if (known !== undefined && known === leases[0]) {
      this.#byKey.refresh(first.partitionKey);
      return known;
    }
    const lease = known ?? new Lease(group, first, this.#isolate.clock.now());
    const used = [lease, ...leases.filter((each) => each !== lease)];
    const kept = used.slice(0, maximumLeasesPerKey);
    const evicted = this.#byKey.set(first.partitionKey, kept).flat();
    for (const each of [...used.slice(maximumLeasesPerKey), ...evicted]) {
      each.end();
      waitUntil(this.#returnEnded(each));
    }
    return lease;
  }
}

const returnedOf = ({ id, used }: BorrowedSlice): SliceReturned => ({ id, used });

const instantOf = (settlement: Settlement, { policy }: Spend): number | null =>
  settlement.find((each) => each.policy === policy.name)?.atMs ?? null;
