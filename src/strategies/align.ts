/** Where windows begin: with the first admitted request, or at multiples of their length since the Unix epoch. */
import * as v from "valibot";
import type { Limit } from "./strategy.ts";

const alignments = ["first-request", "clock"] as const;

export interface AlignedLimit extends Limit {
  readonly align: (typeof alignments)[number];
}

/** The field of a limit that says so. */
export const alignOption = {
  align: v.optional(
    v.picklist(alignments, `one of ${alignments.map((each) => `"${each}"`).join(", ")}`),
    "first-request",
  ),
};

/** When the window opens that a request at `atMs` is the first of. */
export function opensAt(limit: AlignedLimit, atMs: number): number {
  return limit.align === "clock" ? atMs - (atMs % limit.windowMs) : atMs;
}
