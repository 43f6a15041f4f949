/** The canvas of a plot. It follows the size of its frame and the color scheme. */
// oxlint-disable-next-line import/no-unassigned-import -- runs before uPlot is loaded
import "./valid-language.ts";
import uPlot from "uplot";
import { indexAt, type PlotData } from "./plot-data.ts";
import { shortNumberText } from "./text.ts";

/** The size of the plot in CSS pixels. Marks have their place above the lines. */
export const chartHeight = 256;
/** The last time of the axis has half of its width on the right. */
export const chartEdges = { top: 46, right: 30, bottom: 28, left: 52 } as const;

interface ChartParts {
  readonly frame: HTMLElement;
  readonly data: PlotData;
  /** Receives the index of the time at the cursor; null without one. */
  readonly onCursor: (index: number | null) => void;
  readonly onWidth: (width: number) => void;
}

export class Chart {
  readonly #plot: uPlot;
  readonly #frame: HTMLElement;
  readonly #resized: ResizeObserver;
  readonly #colors: CssColors;
  #data: PlotData;

  constructor({ frame, data, onCursor, onWidth }: ChartParts) {
    this.#frame = frame;
    this.#data = data;
    this.#colors = new CssColors(frame, () => this.#plot.redraw());
    this.#plot = new uPlot(this.#options(onCursor), aligned(data), frame);
    this.#resized = new ResizeObserver(() => {
      const { clientWidth: width } = frame;
      onWidth(width);
      this.#plot.setSize({ width, height: chartHeight });
    });
    this.#resized.observe(frame);
  }

  update(data: PlotData): void {
    if (data === this.#data) return;
    this.#data = data;
    this.#plot.setData(aligned(data));
  }

  destroy(): void {
    this.#colors.stop();
    this.#resized.disconnect();
    this.#plot.destroy();
  }

  #options(onCursor: ChartParts["onCursor"]): uPlot.Options {
    const { top, right, bottom, left } = chartEdges;
    const stroke = (): string => this.#colors.of("--dim");
    const lines = { stroke: () => this.#colors.of("--line"), width: 1 };
    const axis = { stroke, grid: lines, ticks: { ...lines, size: 4 } };
    const { stepMs, series } = this.#data;
    const paths = uPlot.paths.stepped?.(stepMs === null ? { align: -1, extend: true } : { align: 1 });
    return {
      width: this.#frame.clientWidth,
      height: chartHeight,
      ms: 1,
      padding: [top, right, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: false }, points: { show: false } },
      hooks: {
        draw: [this.#paleLongSteps],
        setCursor: [({ cursor: { left: at = -1 } }) => onCursor(this.#indexAt(at))],
      },
      scales: {
        x: { range: () => [this.#data.fromMs, this.#data.toMs] },
        y: { range: (_, __, most) => [0, highest(most)] },
      },
      axes: [
        { ...axis, size: bottom, space: 70, values: timeTexts },
        { ...axis, size: left, values: (_, splits) => splits.map(shortNumberText) },
      ],
      series: [
        {},
        ...series.map(({ label, color }): uPlot.Series => ({
          label,
          stroke: () => this.#colors.of(color),
          fill: () => withAlpha(this.#colors.of(color)),
          width: 2,
          points: { show: false },
          ...(paths !== undefined && { paths }),
        })),
      ],
    };
  }

  readonly #paleLongSteps = (plot: uPlot): void => {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.globalAlpha = 0.6;
    ctx.fillStyle = this.#colors.of("--surface");
    for (const { fromMs, toMs } of this.#data.longSteps) {
      const left = Math.max(bbox.left, plot.valToPos(fromMs, "x", true));
      ctx.fillRect(left, bbox.top, plot.valToPos(toMs, "x", true) - left, bbox.height);
    }
    ctx.restore();
  };

  /** @param left the distance from the start of the time axis, in CSS pixels; negative without a cursor */
  #indexAt(left: number): number | null {
    return left < 0 ? null : indexAt(this.#data, this.#plot.posToVal(left, "x"));
  }
}

/** Draws the last step up to its end. */
function aligned({ times, series, stepMs, toMs }: PlotData): uPlot.AlignedData {
  const last = times.at(-1);
  if (last === undefined || stepMs === null) {
    return [[...times], ...series.map(({ values }) => [...values])];
  }
  return [[...times, Math.min(toMs, last + stepMs)], ...series.map(({ values }) => [...values, values.at(-1) ?? null])];
}

/** Leaves some space above the line, and shows a whole axis without traffic. */
const highest = (most: number | null): number =>
  most === null || !(most > 0) ? 1 : (uPlot.rangeNum(0, most, 0.1, true)[1] ?? most);

const withAlpha = (color: string): string => color.replace(/^rgb\((.*)\)$/, "rgba($1, 0.14)");

const dayMs = 86_400_000;
const timeFormats = {
  seconds: new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" }),
  minutes: new Intl.DateTimeFormat("en-GB", { timeStyle: "short" }),
  days: new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" }),
};

const timeTexts: uPlot.Axis.DynamicValues = (_, splits, __, ___, incrementMs) =>
  splits.map((atMs) => {
    const isMidnight = timeFormats.seconds.format(atMs) === "00:00:00";
    if (incrementMs >= dayMs || isMidnight) return timeFormats.days.format(atMs);
    return timeFormats[incrementMs < 60_000 ? "seconds" : "minutes"].format(atMs);
  });

const dark = matchMedia("(prefers-color-scheme: dark)");

export class CssColors {
  readonly #frame: HTMLElement;
  readonly #onChange: () => void;
  readonly #known = new Map<string, string>();

  /** @param onChange is called when the color scheme has changed */
  constructor(frame: HTMLElement, onChange: () => void) {
    this.#frame = frame;
    this.#onChange = onChange;
    dark.addEventListener("change", this.#forget);
  }

  /** A canvas knows no CSS variables, and the value of a variable with `light-dark()` is no color yet. */
  of(name: string): string {
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const probe = document.createElement("span");
    probe.style.color = `var(${name})`;
    this.#frame.append(probe);
    const { color } = getComputedStyle(probe);
    probe.remove();
    this.#known.set(name, color);
    return color;
  }

  stop(): void {
    dark.removeEventListener("change", this.#forget);
  }

  readonly #forget = (): void => {
    this.#known.clear();
    this.#onChange();
  };
}
