/** A canvas with a uPlot chart. It follows the size of its frame and the color scheme. */
import type { RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "./plot.css";

export type ChartOptions = Omit<uPlot.Options, "width" | "height" | "legend">;

interface ChartParts<Data> {
  readonly frame: HTMLElement;
  readonly data: Data;
  /** In CSS pixels. */
  readonly height: number;
  readonly options: (chart: Chart<Data>) => ChartOptions;
  readonly aligned: (data: Data) => uPlot.AlignedData;
  readonly onWidth?: (width: number) => void;
}

export { uPlot };

export class Chart<Data> {
  readonly colors: CssColors;
  data: Data;
  readonly #plot: uPlot;
  readonly #resized: ResizeObserver;
  readonly #aligned: ChartParts<Data>["aligned"];

  constructor({ frame, data, height, options, aligned, onWidth }: ChartParts<Data>) {
    this.data = data;
    this.#aligned = aligned;
    this.colors = new CssColors(frame, () => this.#plot.redraw());
    const size = { width: frame.clientWidth, height };
    this.#plot = new uPlot({ ...size, legend: { show: false }, ...options(this) }, aligned(data), frame);
    this.#resized = new ResizeObserver(() => {
      onWidth?.(frame.clientWidth);
      this.#plot.setSize({ width: frame.clientWidth, height });
    });
    this.#resized.observe(frame);
  }

  get axis(): uPlot.Axis {
    const lines = { stroke: () => this.colors.of("--line"), width: 1 };
    return { stroke: () => this.colors.of("--dim"), grid: lines, ticks: { ...lines, size: 4 } };
  }

  update(data: Data): void {
    if (data === this.data) return;
    this.data = data;
    this.#plot.setData(this.#aligned(data));
  }

  destroy(): void {
    this.colors.stop();
    this.#resized.disconnect();
    this.#plot.destroy();
  }
}

/**
 * Creates a chart while the component is shown. Returns the reference for its frame.
 * @param form a change of this text creates a new chart; a change of the data alone does not
 */
export function useChart<Data>(
  create: (frame: HTMLElement) => Chart<Data>,
  data: Data,
  form = "",
): RefObject<HTMLDivElement | null> {
  const frame = useRef<HTMLDivElement>(null);
  const chart = useRef<Chart<Data> | null>(null);
  useEffect(() => {
    if (frame.current === null) return undefined;
    const created = create(frame.current);
    chart.current = created;
    return () => created.destroy();
    // oxlint-disable-next-line react-hooks/exhaustive-deps -- new data does not need another chart
  }, [form]);
  useEffect(() => chart.current?.update(data), [data]);
  return frame;
}

/** The end of an axis, with some space above the largest value. @param whole the end if all values are 0 */
export const axisEnd = (most: number | null, whole: number, space: number): number =>
  most === null || !(most > 0) ? whole : (uPlot.rangeNum(0, most, space, true)[1] ?? most);

const dark = matchMedia("(prefers-color-scheme: dark)");

/** The colors of CSS variables for a canvas, which follow the color scheme. */
export class CssColors {
  readonly #frame: HTMLElement;
  readonly #onChange: () => void;
  readonly #known = new Map<string, string>();

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
