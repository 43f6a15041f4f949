/** Where windows begin: with the first admitted request, or at multiples of their length since the Unix epoch. */
import * as v from "valibot";
import type { Limit } from "./strategy.ts";

type Align = "first-request" | "clock";

export interface AlignedLimit extends Limit {
  readonly align: Align;
}

/** The option `align`; the first alignment is the default. */
export function alignOption<const Alignments extends readonly [string, ...string[]]>(alignments: Alignments) {
  const accepted = `one of ${alignments.map((each) => `"${each}"`).join(", ")}`;
  return { align: v.optional(v.picklist(alignments, accepted), () => alignments[0]) };
}

/** When the window of a first request at `atMs` opens. */
export function openingMs(align: Align, windowMs: number, atMs: number): number {
  return align === "clock" ? Math.floor(atMs / windowMs) * windowMs : atMs;
}
