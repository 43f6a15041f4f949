/** The charges by objects and the refunds that isolates send, by request. */
import type { CheckCall, CheckReply, RefundCall } from "../../../src/limiter/protocol.ts";
import type { Admitted } from "../admitted.ts";
import { requestOf } from "./policies.ts";

/** The charges of one request by one policy to one key. */
export interface Charged {
  booked: number;
  /** The bookings whose replies have reached the request. */
  arrived: number;
  refundsSent: number;
}

/** Rare situations that must occur often enough in the schedules. */
export const situations = [
  "a call of several requests that was lost or never answered",
  "a call of several requests whose object crashed",
  "a check of a joined call that had older rules",
  "a check of a joined call whose key was banned",
  "a check of a joined call that the object could not decide",
  "a provisional check of a joined call",
  "a confirmed check of a joined call",
  "a request that was answered without being sent",
  "a request that vanished after its check was sent",
] as const;

export type Situation = (typeof situations)[number];

interface Booking extends Admitted {
  readonly request: number;
}

const name = (key: string, policy: string): string => `${policy} ${key}`;

const bookedCharges = ({ charges }: CheckCall, { decisions }: CheckReply) => {
  const isAllowed = (index: number): boolean => decisions[index]?.allowed === true;
  const isAdmitted = charges.every(({ isDryRun }, index) => isDryRun === true || isAllowed(index));
  return isAdmitted ? charges.filter(({ cost }, index) => cost > 0 && isAllowed(index)) : [];
};

export class Ledger {
  readonly situations = new Map<Situation, number>();
  readonly #charged = new Map<string, Charged>();
  /** The bookings by policy and key, in the order of time. */
  readonly #bookings = new Map<string, Booking[]>();

  charged(request: number, key: string, policy: string): Charged {
    const id = `${request} ${name(key, policy)}`;
    const charged = this.#charged.get(id) ?? { booked: 0, arrived: 0, refundsSent: 0 };
    this.#charged.set(id, charged);
    return charged;
  }

  note(situation: Situation, isGiven: boolean): void {
    if (isGiven) this.situations.set(situation, (this.situations.get(situation) ?? 0) + 1);
  }

  /** Records that an object has decided a check. */
  decided(call: CheckCall, reply: CheckReply, nowMs: number): void {
    for (const charge of bookedCharges(call, reply)) {
      const request = requestOf(charge);
      this.charged(request, call.key, charge.policy).booked++;
      const id = name(call.key, charge.policy);
      const bookings = this.#bookings.get(id) ?? [];
      bookings.push({ atMs: nowMs, units: charge.cost, request });
      this.#bookings.set(id, bookings);
    }
  }

  /** Records that the reply to a check has reached its request. */
  arrived(call: CheckCall, reply: CheckReply): void {
    for (const charge of bookedCharges(call, reply)) {
      this.charged(requestOf(charge), call.key, charge.policy).arrived++;
    }
  }

  refundSent({ key, charges }: RefundCall): void {
    for (const charge of charges) this.charged(requestOf(charge), key, charge.policy).refundsSent++;
  }

  /** Records that an object has refunded a charge. */
  refunded({ key, charges }: RefundCall): void {
    for (const charge of charges) {
      const bookings = this.#bookings.get(name(key, charge.policy)) ?? [];
      const index = bookings.findIndex(({ request }) => request === requestOf(charge));
      if (index >= 0) bookings.splice(index, 1);
    }
  }

  /** The bookings of each policy and key that were not refunded. */
  *admitted(): Iterable<{ policy: string; key: string; admitted: readonly Admitted[] }> {
    for (const [id, admitted] of this.#bookings) {
      const [policy = "", key = ""] = id.split(" ");
      yield { policy, key, admitted };
    }
  }
}
