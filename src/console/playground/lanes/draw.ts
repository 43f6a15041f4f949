/** Draws a lane: allowed units above a line, denied units below it with stripes, then what remains, then waits. */
import type { Span } from "../page-state.ts";
import type { Bins } from "./bins.ts";
import type { Curve } from "./curve.ts";

/** The width of a bar with the gap that follows it. */
export const columnPx = 3;

/** The bands of a lane from its top, in CSS pixels. */
export const bands = { requests: 96, remaining: 40, waits: 32 } as const;

/** Each band has its label above it, where it hides nothing. */
export const labelPx = 14;

/** Where each band begins. */
export const tops = {
  requests: labelPx,
  remaining: bands.requests + 2 * labelPx,
  waits: bands.requests + bands.remaining + 3 * labelPx,
} as const;

export const laneHeight = (hasWaits: boolean): number =>
  hasWaits ? tops.waits + bands.waits : tops.remaining + bands.remaining;

/** The same for all lanes, so that heights can be compared. */
export interface Scale {
  readonly allowed: number;
  readonly denied: number;
  readonly waitMs: number;
}

export interface LanePicture {
  readonly bins: Bins;
  readonly curve: Curve;
  readonly capacity: number;
  readonly scale: Scale;
  readonly span: Span;
  /** Instants of vertical lines. */
  readonly ticks: readonly number[];
}

interface Colors {
  readonly allowed: string;
  readonly denied: string;
  readonly line: string;
  readonly dim: string;
  readonly remaining: string;
  readonly wait: string;
}

/** Registered as colors in the style sheet, so that the browser resolves `light-dark()`. */
function colorsOf(element: Element): Colors {
  const style = getComputedStyle(element);
  const color = (name: string): string => style.getPropertyValue(`--plot-${name}`);
  return {
    allowed: color("allowed"),
    denied: color("denied"),
    line: color("line"),
    dim: color("dim"),
    remaining: color("remaining"),
    wait: color("wait"),
  };
}

/** Fits the canvas to the pixels of the screen, empties it, and returns a context whose unit is a CSS pixel. */
export function cleared(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D | null {
  const ratio = devicePixelRatio;
  const [columns, rows] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== columns || canvas.height !== rows) {
    canvas.width = columns;
    canvas.height = rows;
  }
  const context = canvas.getContext("2d");
  context?.setTransform(ratio, 0, 0, ratio, 0, 0);
  context?.clearRect(0, 0, width, height);
  return context;
}

export function drawLane(canvas: HTMLCanvasElement, width: number, picture: LanePicture): void {
  const hasWaits = picture.bins.mostWaitMs > 0;
  const context = cleared(canvas, width, laneHeight(hasWaits));
  if (context === null) return;
  const colors = colorsOf(canvas);
  drawTicks(context, width, picture, colors);
  drawRequests(context, width, picture, colors);
  drawRemaining(context, width, picture, colors);
  if (hasWaits) drawWaits(context, width, picture, colors);
}

function drawTicks(
  context: CanvasRenderingContext2D,
  width: number,
  { ticks, span }: LanePicture,
  colors: Colors,
): void {
  context.fillStyle = colors.line;
  context.globalAlpha = 0.6;
  for (const atMs of ticks) {
    const x = ((atMs - span.fromMs) / (span.toMs - span.fromMs)) * width;
    context.fillRect(Math.round(x), tops.requests, 1, laneHeight(true));
  }
  context.globalAlpha = 1;
}

/** One request must be visible beside a burst of hundreds. */
const leastBarPx = 3;

function drawRequests(
  context: CanvasRenderingContext2D,
  width: number,
  { bins, scale }: LanePicture,
  colors: Colors,
): void {
  const layout = requestsLayout(scale);
  const { pxPerUnit } = layout;
  const base = tops.requests + layout.base;
  const barPx = columnPx - 1;
  const heightOf = (units: number): number => (units === 0 ? 0 : Math.max(leastBarPx, units * pxPerUnit));
  context.fillStyle = colors.allowed;
  for (const [bin, units] of bins.allowed.entries()) {
    const height = heightOf(units);
    if (height > 0) context.fillRect(bin * columnPx, base - 1 - height, barPx, height);
  }
  // The part that waited is hollow.
  context.fillStyle = colors.wait;
  for (const [bin, units] of bins.delayed.entries()) {
    const height = Math.min(heightOf(units), heightOf(bins.allowed[bin] ?? 0));
    if (height > 0) context.fillRect(bin * columnPx, base - 1 - height, barPx, height);
  }
  context.fillStyle = colors.denied;
  for (const [bin, units] of bins.denied.entries()) {
    const height = heightOf(units);
    // Stripes, so that denials differ from allowed requests without color, too.
    for (let y = 0; y < height; y += 3) {
      context.fillRect(bin * columnPx, base + 2 + y, barPx, Math.min(2, height - y));
    }
  }
  context.fillStyle = colors.line;
  context.fillRect(0, base, width, 1);
}

/** Where the line between allowed and denied requests is, with room for the shortest bar on both sides. */
export function requestsLayout({ allowed, denied }: Scale): {
  readonly base: number;
  readonly pxPerUnit: number;
} {
  const share = allowed / Math.max(1, allowed + denied);
  const roomPx = 12;
  const base = Math.round(Math.min(bands.requests - roomPx, Math.max(roomPx, bands.requests * share)));
  const abovePx = (base - 3) / Math.max(1, allowed);
  const belowPx = (bands.requests - base - 3) / Math.max(1, denied);
  return { base, pxPerUnit: Math.min(abovePx, belowPx) };
}

function drawRemaining(
  context: CanvasRenderingContext2D,
  width: number,
  { curve, capacity, span }: LanePicture,
  colors: Colors,
): void {
  const bottom = tops.remaining + bands.remaining - 1;
  context.fillStyle = colors.line;
  context.fillRect(0, bottom, width, 1);
  if (curve.atMs.length === 0) return;
  const x = (ms: number): number => ((ms - span.fromMs) / (span.toMs - span.fromMs)) * width;
  const y = (units: number): number => bottom - (Math.max(0, units) / Math.max(1, capacity)) * (bands.remaining - 3);
  const line = new Path2D();
  const first = y(curve.remaining[0] ?? 0);
  line.moveTo(x(curve.atMs[0] ?? 0), first);
  let before = first;
  for (let point = 1; point < curve.atMs.length; point++) {
    const at = x(curve.atMs[point] ?? 0);
    // Units are whole, so the line has steps.
    line.lineTo(at, before);
    before = y(curve.remaining[point] ?? 0);
    line.lineTo(at, before);
  }
  const area = new Path2D(line);
  area.lineTo(x(curve.atMs.at(-1) ?? 0), bottom);
  area.lineTo(x(curve.atMs[0] ?? 0), bottom);
  context.globalAlpha = 0.18;
  context.fillStyle = colors.remaining;
  // oxlint-disable-next-line unicorn/no-array-fill-with-reference-type -- a canvas is no array
  context.fill(area);
  context.globalAlpha = 1;
  context.strokeStyle = colors.remaining;
  context.lineWidth = 1.5;
  context.stroke(line);
}

function drawWaits(
  context: CanvasRenderingContext2D,
  width: number,
  { bins, scale }: LanePicture,
  colors: Colors,
): void {
  const bottom = laneHeight(true) - 1;
  context.fillStyle = colors.wait;
  for (const [bin, waitMs] of bins.waitMs.entries()) {
    const height = (waitMs / Math.max(1, scale.waitMs)) * (bands.waits - 3);
    // A line at the top of each wait: the bars of requests are full.
    if (waitMs > 0) {
      context.globalAlpha = 0.25;
      context.fillRect(bin * columnPx, bottom - height, columnPx, height);
      context.globalAlpha = 1;
      context.fillRect(bin * columnPx, bottom - height - 1, columnPx, 2);
    }
  }
  context.fillStyle = colors.line;
  context.fillRect(0, bottom, width, 1);
}
