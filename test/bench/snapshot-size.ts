/** How many bytes the snapshot of a meter takes as the platform stores it. */
import { deserialize, serialize } from "node:v8";
import type { Meter } from "../../src/strategies/index.ts";

/** Written twice: compiled code may leave an integer in the form of a double, which reading it back mends. */
export function snapshotBytes(meter: Meter): number {
  return serialize(deserialize(serialize(meter.snapshot()))).byteLength;
}
