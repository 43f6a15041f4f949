/** The size in bytes of a meter's snapshot, serialized as the platform does. */
import { serialize } from "node:v8";
import type { Meter } from "../../src/strategies/index.ts";

/** The size of the snapshot itself. Compiled code may store an integer as a double, which takes more bytes. */
export function writtenBytes(meter: Meter): number {
  return serialize(meter.snapshot()).byteLength;
}

/** The size after a JSON round trip, which makes every number an integer, so that every run has the same result. */
export function leastBytes(meter: Meter): number {
  return serialize(JSON.parse(JSON.stringify(meter.snapshot()))).byteLength;
}
