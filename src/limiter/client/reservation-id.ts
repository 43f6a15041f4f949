/**
 * The ids of reservations: 128 random bits and where to find what they stand for, so that any isolate can settle any
 * reservation; authenticated, so that nobody reaches an object by an id of their own making, and bound to a tenant.
 */
import { jurisdictions, locationHints, type ObjectSettings } from "../../config/index.ts";

export interface ReservationAddress {
  /** 128 random bits in hexadecimal. */
  readonly random: string;
  readonly partitionKey: string;
  readonly settings: ObjectSettings;
}

/** HMAC of a text, the same in every isolate; see `signer` of the policies. */
type Sign = (text: string) => Promise<string>;

export function newAddress(partitionKey: string, settings: ObjectSettings): ReservationAddress {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const random = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return { random, partitionKey, settings };
}

/** `<random>.<partition key>.<shards>.<location hint>.<jurisdiction>.<signature>`; what is null is empty. */
export async function reservationId(
  { random, partitionKey, settings }: ReservationAddress,
  tenant: string | null,
  sign: Sign,
): Promise<string> {
  const { shards, locationHint, jurisdiction } = settings;
  const named = [random, partitionKey, shards ?? "", locationHint ?? "", jurisdiction ?? ""].join(
    ".",
  );
  return `${named}.${await sign(signedText(named, tenant))}`;
}

/** Where an id points; null unless it was made with the same secret for the same tenant. */
export async function addressOf(
  id: string,
  tenant: string | null,
  sign: Sign,
): Promise<ReservationAddress | null> {
  const parts = id.split(".");
  const [random = "", partitionKey = "", shards, locationHint, jurisdiction, signature = ""] =
    parts;
  if (parts.length !== 6) return null;
  const expected = await sign(signedText(parts.slice(0, 5).join("."), tenant));
  if (!isEqual(signature, expected)) return null;
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

/** Apart from every text that names a key, which is a list or has another member. */
const signedText = (named: string, tenant: string | null): string =>
  JSON.stringify({ reservation: named, tenant });

/** In a time that does not tell how much of it was right. */
function isEqual(given: string, expected: string): boolean {
  const utf8 = new TextEncoder();
  const [a, b] = [utf8.encode(given), utf8.encode(expected)];
  return a.byteLength === b.byteLength && crypto.subtle.timingSafeEqual(a, b);
}
