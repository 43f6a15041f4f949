/** Calls of Durable Objects: which object a key lives in, the deadline of a call, and how often the platform repeats it. */
import type { Clock } from "./clock.ts";
import type { Jurisdiction, LocationHint, ObjectSettings } from "../policy/placement.ts";

/**
 * The platform's default is five attempts in up to ten seconds, longer than a request should wait. 500 ms is the shortest
 * timeout it accepts; the deadline of a call is enforced here.
 */
export const platformRetries = { maxRetries: 1, timeoutMs: 500 };

/** Keeps the Worker running for work that continues after the response. */
export type WaitUntil = (work: Promise<unknown>) => void;

/** A timer that fires this much too late shows that the isolate itself was busy. */
const busyMs = 100;

export class DeadlineExceeded extends Error {
  override readonly name = "DeadlineExceeded";
  /**
   * Whether the isolate was too busy to read a reply in time. The delay then does not show that the object is at fault.
   */
  readonly wasBusy: boolean;

  constructor(timeoutMs: number, wasBusy = false) {
    super(`no answer within ${timeoutMs} ms${wasBusy ? ", while the isolate was busy" : ""}`);
    this.wasBusy = wasBusy;
  }
}

/** @throws DeadlineExceeded when the reply does not arrive in time; the call itself keeps running */
export function withDeadline<Reply>(
  { now, after }: Pick<Clock, "now" | "after">,
  reply: Promise<Reply>,
  timeoutMs: number,
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const dueAtMs = now() + timeoutMs;
    let cancel = after(timeoutMs, () => {
      const wasBusy = now() - dueAtMs >= busyMs;
      // A busy isolate first reads the replies that have arrived in the meantime.
      cancel = after(0, () => reject(new DeadlineExceeded(timeoutMs, wasBusy)));
    });
    void reply.then(resolve, reject).then(() => cancel());
  });
}

export interface ObjectLocation {
  readonly name: string;
  /** Where a new object is created. An existing object does not move. */
  readonly locationHint: LocationHint | null;
  /** The same name in another jurisdiction is another object. */
  readonly jurisdiction: Jurisdiction | null;
}

/**
 * An object for one key has the partition key as its name; a shard is named `<shard>-of-<shards>`. A location hint adds
 * `@<hint>`. These names must never change: what is stored under the old names would be lost.
 */
export function objectLocation(settings: ObjectSettings, partitionKey: string): ObjectLocation {
  const { shards, locationHint, jurisdiction } = settings;
  const base = shards === null ? partitionKey : `${shardOf(partitionKey, shards)}-of-${shards}`;
  const name = locationHint === null ? base : `${base}@${locationHint}`;
  return { name, locationHint, jurisdiction };
}

/** Identifies an object among those of all jurisdictions. */
export const objectId = ({ name, jurisdiction }: ObjectLocation): string => `${jurisdiction ?? ""} ${name}`;

/** 48 bits in base64. */
const hashedCharacters = 8;

/**
 * The shard of a key, from 0: the first 48 bits of its partition key modulo the number of shards. The partition key is an
 * HMAC-SHA-256 in base64url.
 */
export function shardOf(partitionKey: string, shards: number): number {
  const base64 = partitionKey
    .slice(0, hashedCharacters)
    .replaceAll("-", "+")
    .replaceAll("_", "/")
    .padEnd(hashedCharacters, "A");
  let hash = 0;
  for (const character of atob(base64)) hash = hash * 256 + character.charCodeAt(0);
  return hash % shards;
}
