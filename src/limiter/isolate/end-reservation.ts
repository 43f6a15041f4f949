/** Ends a reservation in its object, and reports what was settled. */
import { objectLocation } from "../object-location.ts";
import type { SettleCall, SettleReply } from "../protocol.ts";
import type { ObjectCaller } from "./object-caller.ts";
import type { ReservationAddress } from "./reservation-id.ts";

/** A settlement names no policy, so no policy's timeout applies. */
const settleTimeoutMs = 1_000;

interface Settling extends Pick<SettleCall, "cost" | "costs"> {
  /** Whether a failed call is sent once more. Default: false. */
  readonly isRepeatable?: boolean;
  /** Whether the observer receives what was settled. Default: true. */
  readonly isReported?: boolean;
}

/** @returns null when the object gives no answer */
export function endReservation(
  caller: ObjectCaller,
  { random: id, partitionKey: key, settings }: ReservationAddress,
  { isRepeatable = false, isReported = true, ...costs }: Settling,
): Promise<SettleReply | null> {
  const { observer } = caller;
  const wantsCharges = isReported && observer?.wantsSettlements?.(key) === true;
  const call: SettleCall = { key, id, ...costs, ...(wantsCharges && { wantsCharges }) };
  return caller.call<SettleReply>({
    name: "settle",
    location: objectLocation(settings, key),
    policies: [],
    timeoutMs: settleTimeoutMs,
    isRepeatable,
    send: async (stub) => {
      const reply = await stub.settle(call);
      if (reply.charges !== undefined) observer?.settled?.(key, reply.charges);
      return reply;
    },
  });
}
