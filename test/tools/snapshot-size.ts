/** How many bytes the snapshot of a meter takes, written as the platform writes it. */
import { serialize } from "node:v8";
import type { Meter } from "../../src/strategies/index.ts";

/** As it is: an integer that compiled code has computed may stand as a double, which takes some bytes more. */
export function writtenBytes(meter: Meter): number {
  return serialize(meter.snapshot()).byteLength;
}

/** By way of JSON, which makes integers of them all: the same at every run. */
export function leastBytes(meter: Meter): number {
  return serialize(JSON.parse(JSON.stringify(meter.snapshot()))).byteLength;
}
