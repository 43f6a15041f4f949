/** The time axis of all lanes: marks, the cursor, buttons that show a span of the run, and instants as text. */
import { useEffect, useRef, useState } from "preact/hooks";
import { moveCursor, scenario, type Span, zoom } from "../page-state.ts";
import { plotWidth, shownCursorMs, span, ticks, visibleRuns, wholeSpan } from "./plots.ts";

/** An instant as the axis shows it: a log has times of day, other traffic the time from its start. */
export function axisTimeText(atMs: number): string {
  const [run] = visibleRuns.value;
  return scenario.value.traffic === "log" && run !== undefined
    ? clockText(run.startMs, atMs, span.value)
    : elapsedText(atMs);
}

export const shareOf = (atMs: number, { fromMs, toMs }: Span): number => (atMs - fromMs) / (toMs - fromMs);

export const percent = (share: number): string => `${(100 * share).toFixed(3)}%`;

/** The instant at the pointer, which is over the axis or a plot. */
export function instantAt({ currentTarget, clientX }: PointerEvent): number {
  const { fromMs, toMs } = span.value;
  if (!(currentTarget instanceof Element)) return fromMs;
  const { left, width } = currentTarget.getBoundingClientRect();
  const share = Math.min(1, Math.max(0, (clientX - left) / width));
  return fromMs + share * (toMs - fromMs);
}

export const TimeAxis = () => (
  <div class="pg-axis pg-lane-grid">
    <SpanButtons />
    <div class="pg-axis-plot">
      <Ruler />
      <Cursor />
    </div>
  </div>
);

/** Marks beyond this share of the axis have no text, because there is no room for it. */
const lastTickShare = 0.95;

function Ruler() {
  const shown = span.value;
  const frame = useRef<HTMLDivElement>(null);
  const [dragged, setDragged] = useState<Span | null>(null);
  // The width of the axis decides the width of all plots.
  useEffect(() => {
    if (frame.current === null) return undefined;
    const observer = new ResizeObserver(([entry]) => {
      plotWidth.value = Math.floor(entry?.contentRect.width ?? 0);
    });
    observer.observe(frame.current);
    return () => observer.disconnect();
  }, []);
  const finish = (): void => {
    if (dragged !== null) showSpan(dragged.fromMs, dragged.toMs);
    setDragged(null);
  };
  return (
    <div
      ref={frame}
      class="pg-ruler"
      title="Drag to zoom"
      aria-hidden="true"
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        setDragged({ fromMs: instantAt(event), toMs: instantAt(event) });
      }}
      onPointerMove={(event) => dragged !== null && setDragged({ ...dragged, toMs: instantAt(event) })}
      onPointerUp={finish}
      onPointerCancel={() => setDragged(null)}
    >
      {ticks.value.map((atMs) => (
        <span key={atMs} class="pg-tick" style={{ left: percent(shareOf(atMs, shown)) }}>
          {shareOf(atMs, shown) < lastTickShare && axisTimeText(atMs)}
        </span>
      ))}
      {dragged !== null && <SpanMark marked={dragged} class="pg-dragged" />}
    </div>
  );
}

/** A part of the time axis, at its place over a plot. */
export function SpanMark({ marked, class: name }: { readonly marked: Span; readonly class: string }) {
  const shown = span.value;
  const clamp = (ms: number): number => Math.min(1, Math.max(0, shareOf(ms, shown)));
  const [from, to] = [marked.fromMs, marked.toMs].toSorted((a, b) => a - b).map(clamp);
  const left = from ?? 0;
  return <span class={name} style={{ left: percent(left), width: percent((to ?? 0) - left) }} />;
}

/**
 * The cursor through all lanes. The slider extends beyond the plots by half its thumb, so that the middle of the thumb
 * is on the instant.
 */
function Cursor() {
  const { fromMs, toMs } = span.value;
  const at = shownCursorMs.value;
  return (
    <input
      type="range"
      class="pg-cursor"
      aria-label="Time"
      min={fromMs}
      max={toMs}
      step={cursorStepMs(span.value)}
      value={at ?? fromMs}
      aria-valuetext={at === null ? "not chosen" : axisTimeText(at)}
      onInput={(event) => moveCursor(Number(event.currentTarget.value))}
    />
  );
}

const leastSpanMs = 10;

/** Shows a part of the run, if it is long enough. */
export function showSpan(one: number, other: number): void {
  const whole = wholeSpan.value;
  const fromMs = Math.floor(Math.max(whole.fromMs, Math.min(one, other)));
  const toMs = Math.ceil(Math.min(whole.toMs, Math.max(one, other)));
  if (toMs - fromMs < leastSpanMs) return;
  const isWhole = fromMs <= whole.fromMs && toMs >= whole.toMs;
  zoom.value = isWhole ? null : { fromMs, toMs };
}

function SpanButtons() {
  const { fromMs, toMs } = span.value;
  const lengthMs = toMs - fromMs;
  const middle = shownCursorMs.value ?? (fromMs + toMs) / 2;
  const scaled = (factor: number): void => {
    const center = Math.min(toMs, Math.max(fromMs, middle));
    showSpan(center - (center - fromMs) * factor, center + (toMs - center) * factor);
  };
  return (
    <div class="row pg-span">
      <button type="button" disabled={lengthMs <= leastSpanMs * 2} onClick={() => scaled(0.5)}>
        Zoom in
      </button>
      <button type="button" disabled={zoom.value === null} onClick={() => scaled(2)}>
        Zoom out
      </button>
      <button type="button" disabled={zoom.value === null} onClick={() => (zoom.value = null)}>
        Whole run
      </button>
      {scenario.value.traffic === "log" && <span class="dim">Times are in UTC.</span>}
    </div>
  );
}

const pad = (value: number, digits = 2): string => String(value).padStart(digits, "0");

/** From the start of the run: "1:05", "0:59.250", "2:03:00", "3 d 2:00:00". */
function elapsedText(atMs: number): string {
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
export function clockText(startMs: number, atMs: number, shown: Span): string {
  const text = new Date(startMs + atMs).toISOString().replace("T", " ");
  const isLong = shown.toMs - shown.fromMs > 86_400_000;
  return text.slice(isLong ? 0 : 11, -1).replace(/\.000$/, "");
}

/** The step of the cursor: a thousandth of the span, and at least 1 ms. */
const cursorStepMs = ({ fromMs, toMs }: Span): number => Math.max(1, Math.round((toMs - fromMs) / 1_000));
