/** Variable-length encoding of integers of at least 0, as compact text that fits storage and JSON. */
import { isCount } from "../integers.ts";
import type { DatedUnits } from "../strategy.ts";

/** A character holds five bits, the lowest first. Its sixth bit is set when more characters follow. */
const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const digitOf = new Map(digits.split("").map((digit, value) => [digit, value]));

export function encodeIntegers(integers: readonly number[]): string {
  // V8 keeps a text that grows by concatenation as a tree, which takes ten times as much memory as a joined text.
  const characters: string[] = [];
  for (const integer of integers) {
    let rest = integer;
    while (rest >= 32) {
      characters.push(digits.charAt(32 + (rest % 32)));
      rest = Math.floor(rest / 32);
    }
    characters.push(digits.charAt(rest));
  }
  return characters.join("");
}

/** Reverses `encodeIntegers`; null for invalid data. */
export function decodeIntegers(text: unknown): number[] | null {
  if (typeof text !== "string") return null;
  const integers: number[] = [];
  let integer = 0;
  let place = 1;
  for (const character of text) {
    const digit = digitOf.get(character);
    if (digit === undefined || place > Number.MAX_SAFE_INTEGER) return null;
    integer += (digit % 32) * place;
    if (!isCount(integer)) return null;
    place *= 32;
    if (digit >= 32) continue;
    integers.push(integer);
    integer = 0;
    place = 1;
  }
  return place === 1 ? integers : null;
}

/**
 * Encodes instants and units, the oldest first. The first instant is stored as its distance from `originMs`, and each
 * other one as its distance from the one before.
 */
export function encodeDated(dated: readonly DatedUnits[], originMs: number): string {
  const integers: number[] = [];
  let previousMs: number | null = null;
  for (const { atMs, units } of dated) {
    integers.push(previousMs === null ? Math.abs(originMs - atMs) : atMs - previousMs, units);
    previousMs = atMs;
  }
  return encodeIntegers(integers);
}

/** Reverses `encodeDated` with `nowMs` as origin; null for invalid data. */
export function decodeDated(integers: readonly number[] | null, nowMs: number): DatedUnits[] | null {
  if (integers === null || integers.length % 2 !== 0) return null;
  const dated: DatedUnits[] = [];
  let atMs = nowMs - (integers[0] ?? 0);
  if (atMs < 0) return null;
  for (let index = 0; index < integers.length; index += 2) {
    const step = index === 0 ? 0 : (integers[index] ?? 0);
    if (index > 0 && step === 0) return null;
    atMs += step;
    dated.push({ atMs, units: integers[index + 1] ?? 0 });
  }
  return atMs <= nowMs ? dated : null;
}
