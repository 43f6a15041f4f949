/** Instants of a run as text, and the marks of its time axis. */
import type { Span } from "../page-state.ts";

const pad = (value: number, digits = 2): string => String(value).padStart(digits, "0");

/** From the start of the run: "1:05", "0:59.250", "2:03:00", "3 d 2:00:00". */
export function elapsedText(atMs: number): string {
  const wholeMs = Math.floor(atMs);
  const ms = wholeMs % 1_000;
  const seconds = Math.floor(wholeMs / 1_000);
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  const days = Math.floor(hours / 24);
  const fraction = ms === 0 ? "" : `.${pad(ms, 3).replace(/0+$/, "")}`;
  const rest = `${pad(seconds % 60)}${fraction}`;
  if (hours === 0) return `${minutes}:${rest}`;
  const clock = `${hours % 24}:${pad(minutes % 60)}:${rest}`;
  return days === 0 ? clock : `${days} d ${clock}`;
}

/** In UTC, as most logs: "12:00:05", with the day if the run lasts longer than one. */
export function clockText(startMs: number, atMs: number, span: Span): string {
  const text = new Date(startMs + atMs).toISOString().replace("T", " ");
  const isLong = span.toMs - span.fromMs > 86_400_000;
  return text.slice(isLong ? 0 : 11, -1).replace(/\.000$/, "");
}

const steps = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000,
  900_000, 1_800_000, 3_600_000, 7_200_000, 21_600_000, 43_200_000, 86_400_000,
];

/** Round instants of a span, at most `most` of them. */
export function ticksOf({ fromMs, toMs }: Span, most: number): number[] {
  const leastMs = (toMs - fromMs) / Math.max(1, most);
  const largest = steps.at(-1) ?? 1;
  const stepMs = steps.find((each) => each >= leastMs) ?? Math.ceil(leastMs / largest) * largest;
  const ticks: number[] = [];
  for (let at = Math.ceil(fromMs / stepMs) * stepMs; at <= toMs; at += stepMs) ticks.push(at);
  return ticks;
}

/** The least time between two columns of the plot that a person can step over. */
export const cursorStepMs = ({ fromMs, toMs }: Span): number => Math.max(1, Math.round((toMs - fromMs) / 1_000));
