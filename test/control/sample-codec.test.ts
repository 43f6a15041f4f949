/** The compact form of sampled traffic. */
import * as fc from "fast-check";
import { expect, it } from "vitest";
import { fromBase64Url, toBase64Url } from "../../src/control/base64url.ts";
import {
  type SampledArrival,
  type SampledEvent,
  type SampledKeys,
  decodeSamples,
  encodeSamples,
  mergeSamples,
  sampledOutcomes,
} from "../../src/control/sample-codec.ts";
import { forAll } from "../for-all.ts";
import { arrival } from "./object/sample-batches.ts";
import { partitionKeys } from "./key-streams.ts";

const times = fc.oneof(
  fc.integer({ min: 1_796_000_000_000, max: 1_796_000_600_000 }),
  fc.maxSafeNat().map((number) => number % 2 ** 51),
);
const amounts = fc.oneof(fc.constant(1), fc.nat(300), fc.integer({ min: 0, max: 2 ** 51 }));
const arrivals = fc.record({
  kind: fc.constant("arrival" as const),
  atMs: times,
  cost: amounts,
  outcome: fc.constantFrom(...sampledOutcomes),
  ttlMs: fc.oneof(fc.constant(0), amounts),
  hasOtherLimits: fc.boolean(),
});
const settlements = fc.record({
  kind: fc.constant("settlement" as const),
  atMs: times,
  spentAtMs: times,
  cost: amounts,
  actualCost: amounts,
});
const level = fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => toBase64Url(bytes));
const keys = fc.array(level, { minLength: 1, maxLength: 3 }).map((levels) => levels.join("."));
const samples = fc
  .array(fc.tuple(keys, fc.array(fc.oneof(arrivals, settlements), { maxLength: 12 })))
  .map((rows): SampledKeys => new Map(rows));

const byTime = (events: readonly SampledEvent[]): SampledEvent[] =>
  events.toSorted((one, other) => one.atMs - other.atMs);

const ordered = (all: SampledKeys): SampledKeys => new Map([...all].map(([key, events]) => [key, byTime(events)]));

it(
  "decoded samples are the encoded ones, in order of time",
  forAll([samples], (all) => {
    expect(decodeSamples(encodeSamples(all))).toEqual(ordered(all));
  }),
);

it(
  "encoded samples survive base64url",
  forAll([samples], (all) => {
    const bytes = encodeSamples(all);
    expect(fromBase64Url(toBase64Url(bytes))).toEqual(bytes);
  }),
);

it(
  "merged samples have the events of all parts",
  forAll([fc.array(samples, { maxLength: 4 })], (parts) => {
    const expected = new Map<string, SampledEvent[]>();
    for (const [key, events] of parts.flatMap((part) => [...part])) {
      expected.set(key, [...(expected.get(key) ?? []), ...events]);
    }
    expect(decodeSamples(encodeSamples(mergeSamples(parts)))).toEqual(ordered(expected));
  }),
);

/** @throws any other error than a RangeError */
function decodedOrError(bytes: Uint8Array): SampledKeys | RangeError {
  try {
    return decodeSamples(bytes);
  } catch (error) {
    if (error instanceof RangeError) return error;
    throw error;
  }
}

it(
  "damaged samples are a RangeError, or decode to events that can be encoded again",
  forAll([samples, fc.nat(), fc.nat(255)], (all, place, byte) => {
    const bytes = encodeSamples(all);
    bytes[place % bytes.length] = byte;
    const decoded = decodedOrError(bytes);
    fc.pre(!(decoded instanceof RangeError));
    expect(decodeSamples(encodeSamples(decoded))).toEqual(decoded);
  }),
);

it(
  "samples that are cut off within a key's events are an error",
  forAll([keys, fc.array(arrivals, { minLength: 1, maxLength: 5 }), fc.nat()], (key, own, cut) => {
    const bytes = encodeSamples(new Map([[key, own]]));
    const headBytes = encodeSamples(new Map([[key, [{ ...own[0], atMs: 0 } as SampledArrival]]]));
    fc.pre(bytes.length > headBytes.length);
    const length = headBytes.length + (cut % (bytes.length - headBytes.length));
    expect(() => decodeSamples(bytes.subarray(0, length))).toThrow(/they end within/);
  }),
);

it("an arrival with cost 1 that follows within 8 s takes two bytes if it is allowed, and three if it is denied", () => {
  const [key = ""] = partitionKeys(1);
  const startMs = 1_796_000_000_000;
  const size = (outcome: SampledArrival["outcome"], count: number): number =>
    encodeSamples(
      new Map([[key, Array.from({ length: count }, (_, index) => arrival(startMs + index * 8_191, { outcome }))]]),
    ).length;
  expect(size("allowed", 101) - size("allowed", 1)).toBe(200);
  expect(size("denied", 101) - size("denied", 1)).toBe(300);
});

it.each([
  ["a version that this code does not know", [3, 0], /version 3, expected 1 or 2/],
  ["a key without levels", [2, 0, 0], /no level/],
  ["no bytes at all", [], /end within an integer/],
  ["an integer beyond the safe integers", [1, ...Array<number>(8).fill(255), 1], /too large/],
  ["a part of a key", [1, 0, 7, 7], /end within a key/],
  ["flags that this version does not have", [1, 0, ...Array<number>(32).fill(0), 1, 1, 128, 1], /unknown flags/],
])("%s is an error that names the reason", (_, bytes, reason) => {
  expect(() => decodeSamples(Uint8Array.from(bytes))).toThrow(reason);
});

it("encoding a key that is no partition key throws an error", () => {
  expect(() => encodeSamples(new Map([["one", []]]))).toThrow(/partition key.*"one"/);
});
