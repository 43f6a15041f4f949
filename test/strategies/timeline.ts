const midnightMs = Date.UTC(2026, 2, 14);

/** The instant of `h:mm:ss` or `m:ss`, with or without a fraction, on one and the same day. */
export function at(time: string): number {
  const seconds = time.split(":").reduce((sum, part) => sum * 60 + Number(part), 0);
  return midnightMs + Math.round(seconds * 1_000);
}
