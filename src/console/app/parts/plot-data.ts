/** The data of a plot over time, and the places of the marks on its time axis. Marks that lie close together are one group. */

export interface PlotSeries {
  readonly label: string;
  /** The name of a CSS variable. */
  readonly color: `--${string}`;
  /** Null where nothing is known. */
  readonly values: readonly (number | null)[];
}

export interface TimeRange {
  readonly fromMs: number;
  readonly toMs: number;
}

export interface PlotData {
  /** The ends of the time axis, in milliseconds since 1970. */
  readonly fromMs: number;
  readonly toMs: number;
  readonly times: readonly number[];
  /**
   * Each value is that of a step of this length, which begins at its time; the last step is not over. Null for values of the
   * time since the one before.
   */
  readonly stepMs: number | null;
  /** Times with one value, which is a mean, or none. They are pale. */
  readonly longSteps: readonly TimeRange[];
  readonly series: readonly PlotSeries[];
}

/** The index of the value that is drawn at an instant; null when there are no values. */
export function indexAt({ times, stepMs }: Pick<PlotData, "times" | "stepMs">, atMs: number): number | null {
  const last = times.length - 1;
  if (last < 0) return null;
  if (stepMs !== null)
    return Math.max(
      0,
      times.findLastIndex((startMs) => startMs <= atMs),
    );
  const index = times.findIndex((endMs) => endMs >= atMs);
  return index === -1 ? last : index;
}

export interface PlotMark {
  readonly atMs: number;
  /** A few words beside the mark, where there is space for them. */
  readonly label: string;
  /** Stands for the label where there is less space. */
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
  /** Null where no label has space. */
  readonly label: MarkLabel | null;
}

interface Group {
  readonly marks: [PlotMark, ...PlotMark[]];
  readonly left: number;
}

/** The size of a mark, which is large enough for a finger. */
export const markSize = 24;

interface MarkAxis {
  readonly fromMs: number;
  readonly toMs: number;
  /** In CSS pixels. */
  readonly width: number;
}

/**
 * Groups the marks of the axis.
 * @param widthOf the width of a label's text, in CSS pixels
 */
export function groupMarks(
  marks: readonly PlotMark[],
  { fromMs, toMs, width }: MarkAxis,
  widthOf: (text: string) => number,
): readonly MarkGroup[] {
  const placed = marks
    .filter(({ atMs }) => atMs >= fromMs && atMs <= toMs)
    .toSorted((one, other) => one.atMs - other.atMs)
    .map((mark) => ({ mark, left: (width * (mark.atMs - fromMs)) / (toMs - fromMs) }));
  const groups: Group[] = [];
  for (const { mark, left } of placed) {
    const group = groups.at(-1);
    if (group !== undefined && left - group.left < markSize) group.marks.push(mark);
    else groups.push({ marks: [mark], left });
  }
  const labels = labelsOf(groups, { width, widthOf });
  return groups.map((group, index) => ({ ...group, label: labels[index] ?? null }));
}

/** Between a label and its mark. */
const space = 4;
/** Between a label and other labels or marks: more than to its own mark, which shows whose label it is. */
const apart = markSize;

type Labels = readonly (MarkLabel | null)[];

interface LabelAxis {
  readonly width: number;
  readonly widthOf: (text: string) => number;
}

/** Short labels for all marks are better than a long one that leaves no space for another. */
function labelsOf(groups: readonly Group[], axis: LabelAxis): Labels {
  const long = placedLabels(groups, axis, textsOf);
  const short = placedLabels(groups, axis, (marks) => textsOf(marks).slice(1));
  return missing(short) < missing(long) ? short : long;
}

const missing = (labels: Labels): number => labels.filter((label) => label === null).length;

/** The newest labels come first, because they explain the traffic of now. */
function placedLabels(
  groups: readonly Group[],
  axis: LabelAxis,
  texts: (marks: Group["marks"]) => readonly string[],
): Labels {
  const taken: MarkLabel[] = [];
  return groups
    .toReversed()
    .map((group) => {
      const others = groups.filter((each) => each !== group);
      const label = texts(group.marks)
        .flatMap((text) => placesOf(text, group.left, axis.widthOf(text)))
        .find((each) => isFree(each, { taken, others, width: axis.width }));
      if (label !== undefined) taken.push(label);
      return label ?? null;
    })
    .toReversed();
}

/** The places of a label, the best first: beside its mark, then beside the line below the mark. */
function placesOf(text: string, left: number, width: number): MarkLabel[] {
  const beside = markSize / 2 + space;
  return [
    { text, left: left + beside, width, row: 0 },
    { text, left: left - beside - width, width, row: 0 },
    { text, left: left + space, width, row: 1 },
    { text, left: left - space - width, width, row: 1 },
  ];
}

function textsOf(marks: Group["marks"]): readonly string[] {
  const newest = marks.at(-1) ?? marks[0];
  if (marks.length === 1) return [newest.label, newest.shortLabel];
  const others = marks.length - 1;
  return [`${newest.label}, and ${others} more`, `${newest.shortLabel} +${others}`];
}

interface Surroundings {
  readonly taken: readonly MarkLabel[];
  /** The groups of other labels. */
  readonly others: readonly Group[];
  readonly width: number;
}

function isFree({ left, width: own, row }: MarkLabel, around: Surroundings): boolean {
  const isApart = (from: number, to: number): boolean => to <= left - apart || from >= left + own + apart;
  return (
    left >= 0 &&
    left + own <= around.width &&
    around.others.every((group) => isApart(group.left, group.left)) &&
    around.taken.filter((other) => other.row === row).every((other) => isApart(other.left, other.left + other.width))
  );
}
