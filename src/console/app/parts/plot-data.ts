/** The data of a plot over time, and the places of the marks on its time axis. Marks that lie close together are one group. */

export interface PlotSeries {
  readonly label: string;
  /** The name of a CSS variable. */
  readonly color: `--${string}`;
  /** Null where nothing is known. */
  readonly values: readonly (number | null)[];
  /** Fills the area below the line. At most one series, because the colors of two areas would mix. Default: false. */
  readonly isFilled?: boolean;
}

/** In milliseconds since 1970. */
export interface TimeRange {
  readonly fromMs: number;
  readonly toMs: number;
}

export interface PlotData extends TimeRange {
  readonly times: readonly number[];
  /**
   * Each value covers a step of this length, which begins at the time of the value; the last step is incomplete. Null
   * if each value covers the time since the previous one.
   */
  readonly stepMs: number | null;
  /** Spans in which only a mean is known, or nothing. They are drawn pale. */
  readonly longSteps: readonly TimeRange[];
  readonly series: readonly PlotSeries[];
}

/** The index of the value that is drawn at an instant; null when there are no values. */
export function indexAt({ times, stepMs }: Pick<PlotData, "times" | "stepMs">, atMs: number): number | null {
  const last = times.length - 1;
  if (last < 0) return null;
  const index =
    stepMs === null ? times.findIndex((endMs) => endMs >= atMs) : times.findLastIndex((startMs) => startMs <= atMs);
  if (index !== -1) return index;
  return stepMs === null ? last : 0;
}

/** A rate is a mean of the last 10 seconds, and clocks may differ by seconds. */
const shortestRangeMs = 10_000;

/** The time that a value covers. */
export function rangeAt({ times, stepMs }: Pick<PlotData, "times" | "stepMs">, index: number): TimeRange {
  const atMs = times[index] ?? 0;
  if (stepMs !== null) return { fromMs: atMs, toMs: atMs + stepMs };
  return { fromMs: Math.min(times[index - 1] ?? atMs, atMs - shortestRangeMs), toMs: atMs };
}

/** The height of the plot in CSS pixels. The marks have their place above the lines. */
export const chartHeight = 256;
/** The space around the lines. Half of the last time label extends beyond the right end of the axis. */
export const chartEdges = { top: 46, right: 30, bottom: 28, left: 52 } as const;

export interface PlotMark {
  readonly atMs: number;
  /** A few words beside the mark, where there is space for them. */
  readonly label: string;
  /** Replaces the label where there is less space. */
  readonly shortLabel: string;
  /** A sentence, which is shown while the mark has the focus or the pointer. */
  readonly text: string;
  readonly href: string;
}

interface MarkLabel {
  readonly text: string;
  /** The distance from the start of the time axis, in CSS pixels. */
  readonly left: number;
  readonly width: number;
  /** Labels are in two rows above the lines. The first row also has the marks. */
  readonly row: 0 | 1;
}

export interface MarkGroup {
  /** The earliest first. */
  readonly marks: readonly [PlotMark, ...PlotMark[]];
  /** The distance from the start of the time axis, in CSS pixels. */
  readonly left: number;
  /** Null where there is no space for a label. */
  readonly label: MarkLabel | null;
}

/** The size of a mark, which is large enough for a finger. */
export const markSize = 24;

/**
 * Groups the marks of the axis.
 * @param width of the axis, in CSS pixels
 * @param widthOf the width of a label's text, in CSS pixels
 */
export function groupMarks(
  marks: readonly PlotMark[],
  { fromMs, toMs }: TimeRange,
  width: number,
  widthOf: (text: string) => number,
): readonly MarkGroup[] {
  const groups: Unlabelled[] = [];
  for (const mark of marks.toSorted((one, other) => one.atMs - other.atMs)) {
    if (mark.atMs < fromMs || mark.atMs > toMs) continue;
    const left = (width * (mark.atMs - fromMs)) / (toMs - fromMs);
    const group = groups.at(-1);
    if (group !== undefined && left - group.left < markSize) group.marks.push(mark);
    else groups.push({ marks: [mark], left });
  }
  const long = labelled(groups, width, widthOf, textsOf);
  const short = labelled(groups, width, widthOf, (those) => textsOf(those).slice(1));
  // Short labels are used if more marks have a label then.
  return missing(short) < missing(long) ? short : long;
}

interface Unlabelled extends Omit<MarkGroup, "label" | "marks"> {
  readonly marks: [PlotMark, ...PlotMark[]];
}

const missing = (groups: readonly MarkGroup[]): number => groups.filter(({ label }) => label === null).length;

/** The distance between a label and its own mark. */
const space = 4;
/** The distance between a label and all other labels and marks. It is larger, to show which mark a label belongs to. */
const apart = markSize;

/** The newest labels come first, because they explain the traffic of now. */
function labelled(
  groups: readonly Unlabelled[],
  width: number,
  widthOf: (text: string) => number,
  texts: (marks: MarkGroup["marks"]) => readonly string[],
): readonly MarkGroup[] {
  const taken: MarkLabel[] = [];
  const placed = groups.toReversed().map((group) => {
    const isFree = ({ left, width: own, row }: MarkLabel): boolean => {
      const isApart = (from: number, to = from): boolean => to <= left - apart || from >= left + own + apart;
      return (
        left >= 0 &&
        left + own <= width &&
        groups.every((other) => other === group || isApart(other.left)) &&
        taken.every((other) => other.row !== row || isApart(other.left, other.left + other.width))
      );
    };
    const places = texts(group.marks).flatMap((text) => placesOf(text, group.left, widthOf(text)));
    const label = places.find(isFree) ?? null;
    if (label !== null) taken.push(label);
    return { ...group, label };
  });
  return placed.toReversed();
}

/** The places of a label, the best first: beside its mark, then beside the line below the mark. */
function placesOf(text: string, left: number, width: number): readonly MarkLabel[] {
  const beside = markSize / 2 + space;
  return [
    { text, left: left + beside, width, row: 0 },
    { text, left: left - beside - width, width, row: 0 },
    { text, left: left + space, width, row: 1 },
    { text, left: left - space - width, width, row: 1 },
  ];
}

/** The texts of a group, the best first. */
function textsOf(marks: MarkGroup["marks"]): readonly string[] {
  const newest = marks.at(-1) ?? marks[0];
  if (marks.length === 1) return [newest.label, newest.shortLabel];
  const others = marks.length - 1;
  return [`${newest.label}, and ${others} more`, `${newest.shortLabel} +${others}`];
}
