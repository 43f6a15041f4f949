/** A small line without axes, for a cell of a table. The numbers beside it say how much, the line says when. */
import "./sparkline.css";

interface SparklineProps {
  /** One value for each step, the oldest first. Null where nothing is known. */
  readonly values: readonly (number | null)[];
  /** The content of the line in words, for those who do not see it: "Denied per minute, at most 12". */
  readonly label: string;
}

/** The size of the drawing. CSS sets the size on the page. */
const width = 96;
const height = 24;
/** Half of the line's width, so that no part of it is cut off. */
const edge = 1;

export const Sparkline = ({ values, label }: SparklineProps) => (
  <svg class="sparkline" viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label={label}>
    <path d={sparklinePath(values)} />
  </svg>
);

const rounded = (at: number): string => String(Math.round(10 * at) / 10);

/** From 0 to the largest value. The line has a gap where nothing is known, and a single value is a short line. */
export function sparklinePath(values: readonly (number | null)[]): string {
  const most = Math.max(1, ...values.map((value) => value ?? 0));
  const step = width / Math.max(1, values.length);
  return values
    .map((value, index) => {
      if (value === null) return "";
      const y = rounded(height - edge - ((height - 2 * edge) * value) / most);
      const isFirst = index === 0 || values[index - 1] === null;
      return `${isFirst ? `M${rounded(index * step)} ${y}` : `V${y}`}H${rounded((index + 1) * step)}`;
    })
    .join("");
}
