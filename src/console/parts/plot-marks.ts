/** Marks on the time axis of a plot. Those that lie close together are one group. */

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

export interface MarkLabel {
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

/**
 * Groups the marks of the axis.
 * @param width of the axis, in CSS pixels
 */
export function groupMarks(
  marks: readonly PlotMark[],
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
  width: number,
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
  const labels = labelsOf(groups, width);
  return groups.map((group, index) => ({ ...group, label: labels[index] ?? null }));
}

/** Wider than most characters, so that a label is rarely cut. */
const characterWidth = 7.5;
/** Between labels, and between a label and a mark. */
const space = 4;

type Labels = readonly (MarkLabel | null)[];

/** Short labels for all marks are better than a long one that leaves no space for another. */
function labelsOf(groups: readonly Group[], width: number): Labels {
  const long = placedLabels(groups, width, textsOf);
  const short = placedLabels(groups, width, (marks) => textsOf(marks).slice(1));
  return missing(short) < missing(long) ? short : long;
}

const missing = (labels: Labels): number => labels.filter((label) => label === null).length;

/** The newest labels come first, because they explain the traffic of now. */
function placedLabels(
  groups: readonly Group[],
  width: number,
  texts: (marks: Group["marks"]) => readonly string[],
): Labels {
  const taken: MarkLabel[] = [];
  return groups
    .toReversed()
    .map((group) => {
      const label = texts(group.marks)
        .flatMap((text) => placesOf(text, group.left, width))
        .find((each) => isFree(each, taken, groups, width));
      if (label !== undefined) taken.push(label);
      return label ?? null;
    })
    .toReversed();
}

/** The places of a label, the best first: beside its mark, then below it. */
function placesOf(text: string, left: number, width: number): MarkLabel[] {
  const beside = markSize / 2 + space;
  const own = characterWidth * text.length + space;
  const below = Math.max(0, Math.min(left + space, width - own));
  return [
    { text, left: left + beside, width: own, row: 0 },
    { text, left: left - beside - own, width: own, row: 0 },
    { text, left: below, width: own, row: 1 },
    { text, left: left - space - own, width: own, row: 1 },
  ];
}

function textsOf(marks: Group["marks"]): readonly string[] {
  const newest = marks.at(-1) ?? marks[0];
  if (marks.length === 1) return [newest.label, newest.shortLabel];
  const others = marks.length - 1;
  return [`${newest.label}, and ${others} more`, `${newest.shortLabel} +${others}`, `+${others}`];
}

const isFree = (
  { left, width: own, row }: MarkLabel,
  taken: readonly MarkLabel[],
  groups: readonly Group[],
  width: number,
): boolean =>
  left >= 0 &&
  left + own <= width &&
  taken.every(
    (other) =>
      other.row !== row ||
      left >= other.left + other.width + space ||
      other.left >= left + own + space,
  ) &&
  (row === 1 ||
    groups.every(
      (group) => left + own <= group.left - markSize / 2 || left >= group.left + markSize / 2,
    ));
