/** Marks on the time axis of a plot. Those that lie close together are one group. */

export interface PlotMark {
  readonly atMs: number;
  /** A few words beside the mark, where there is space for them. */
  readonly label: string;
  /** A sentence, which is shown while the mark has the focus or the pointer. */
  readonly text: string;
  readonly href: string;
}

export interface MarkGroup {
  /** The earliest first. */
  readonly marks: readonly [PlotMark, ...PlotMark[]];
  /** The distance from the start of the time axis, in CSS pixels. */
  readonly left: number;
  /** Where its label has space; null for nowhere. */
  readonly labelSide: "left" | "right" | null;
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
  const groups: { marks: [PlotMark, ...PlotMark[]]; left: number }[] = [];
  for (const { mark, left } of placed) {
    const group = groups.at(-1);
    if (group !== undefined && left - group.left < markSize) group.marks.push(mark);
    else groups.push({ marks: [mark], left });
  }
  return groups.map((group, index) => ({ ...group, labelSide: labelSideOf(groups, index, width) }));
}

/** A label needs this much space, in CSS pixels. */
const labelWidth = 150;

/** Labels are on the right, except that of the last group when it is close to the end of the axis. */
function labelSideOf(
  groups: readonly { readonly left: number }[],
  index: number,
  width: number,
): MarkGroup["labelSide"] {
  const left = groups[index]?.left ?? 0;
  const next = groups[index + 1]?.left;
  if ((next ?? width) - left >= labelWidth) return "right";
  if (next !== undefined) return null;
  // The group before may have its label on the right.
  const before = groups[index - 1]?.left;
  const free = before === undefined ? left : left - before - labelWidth;
  return free >= labelWidth ? "left" : null;
}
