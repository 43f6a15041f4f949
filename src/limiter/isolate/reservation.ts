/**
 * The addresses of reservations, and the end of one. An id contains 128 random bits and the address, so that any isolate can
 * settle the reservation. It is authenticated, so that a caller cannot reach an object with an invented id, and bound to a
 * tenant.
 */
import { type ObjectSettings, jurisdictions, locationHints } from "../../policy/placement.ts";
import { type SettleCall, type SettleReply, objectLocation } from "../protocol.ts";
import type { ObjectCaller } from "./object-caller.ts";
import type { ReservationAddress } from "./outcome.ts";

/** Returns the HMAC of a text, in base64url. All isolates share the secret. */
type Sign = (text: string) => Promise<string>;

export function newAddress(partitionKey: string, settings: ObjectSettings): ReservationAddress {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const random = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return { random, partitionKey, settings };
}

/** Returns `<random>.<partition key>.<shards>.<location hint>.<jurisdiction>.<signature>`. A part that is null is empty. */
export async function reservationId(
  { random, partitionKey, settings }: ReservationAddress,
  tenant: string | null,
  sign: Sign,
): Promise<string> {
  const { shards, locationHint, jurisdiction } = settings;
  const named = [random, partitionKey, shards ?? "", locationHint ?? "", jurisdiction ?? ""].join(".");
  return `${named}.${await sign(signedText(named, tenant))}`;
}

/** Returns the address in an id; null unless the id was made with the same secret for the same tenant. */
export async function addressOf(id: string, tenant: string | null, sign: Sign): Promise<ReservationAddress | null> {
  const parts = id.split(".");
  const [random = "", partitionKey = "", shards, locationHint, jurisdiction, signature = ""] = parts;
  if (parts.length !== 6) return null;
  const expected = await sign(signedText(parts.slice(0, 5).join("."), tenant));
  // Compares HMACs, so that the time of the comparison reveals nothing about the expected signature.
  const [given, wanted] = await Promise.all([signature, expected].map((each) => sign(comparedText(each))));
  if (given !== wanted) return null;
  return {
    random,
    partitionKey,
    settings: {
      shards: shards ? Number(shards) : null,
      locationHint: locationHints.find((hint) => hint === locationHint) ?? null,
      jurisdiction: jurisdictions.find((each) => each === jurisdiction) ?? null,
    },
  };
}

/** The texts that are signed. The same secret signs the texts of keys, which never have one of these forms. */
const signedText = (named: string, tenant: string | null): string => JSON.stringify({ reservation: named, tenant });

const comparedText = (signature: string): string => JSON.stringify({ signature });

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
  const wantsCharges = isReported && observer?.settled !== undefined;
  const call: SettleCall = { key, id, ...costs, ...(wantsCharges && { wantsCharges }) };
  return caller.call<SettleReply>({
    name: "settle",
    location: objectLocation(settings, key),
    policies: [],
    timeoutMs: settleTimeoutMs,
    isRepeatable,
    send: async (stub) => {
      const reply = await stub.settle(call);
      for (const [each, charges] of Map.groupBy(reply.charges ?? [], (charge) => charge.key ?? key)) {
        observer?.settled?.(each, charges);
      }
      return reply;
    },
  });
}
