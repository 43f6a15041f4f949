/** A table whose columns can be sorted. */
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { numberText } from "./text.ts";

export interface Column<Row> {
  readonly title: string;
  readonly cell: (row: Row) => ComponentChildren;
  /** The value that orders the rows; absent for a column that cannot be sorted. */
  readonly sortBy?: (row: Row) => number | string;
  readonly isNumber?: boolean;
}

/** A column of numbers. The first click sorts it with the largest first. */
export const numberColumn = <Row,>(
  title: string,
  value: (row: Row) => number,
  cell: (row: Row) => ComponentChildren = (row) => numberText(value(row)),
): Column<Row> => ({ title, cell, sortBy: value, isNumber: true });

interface TableProps<Row> {
  readonly caption: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string | number;
  /** The column and direction before the user chooses one. Default: the order of the rows. */
  readonly sorted?: Sorting;
  /** Whether a row is the one that the page is about. */
  readonly isMarked?: (row: Row) => boolean;
}

interface Sorting {
  readonly title: string;
  readonly isDescending: boolean;
}

/** On a narrow screen, a table with more columns shows the cells of a row below each other. */
const mostBeside = 4;

export function Table<Row>({ caption, columns, rows, keyOf, sorted, isMarked }: TableProps<Row>) {
  const [sorting, setSorting] = useState<Sorting | null>(sorted ?? null);
  const ordered = sortedRows(rows, columns, sorting);
  const { frame, isWide, isHigh } = useScrolling();
  return (
    <div
      ref={frame}
      class={`table-frame ${isWide ? "wide" : ""} ${columns.length > mostBeside ? "stacked" : ""}`}
      role="region"
      aria-label={caption}
      // Only a table that scrolls gets a tab stop: keyboard users must reach it.
      {...((isWide || isHigh) && { tabIndex: 0 })}
    >
      {isWide && (
        <p class="hint scroll-hint" aria-hidden="true">
          Scroll sideways for more columns →
        </p>
      )}
      <table>
        <caption class="hidden">{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <Heading key={column.title} {...{ column, sorting, setSorting }} />
            ))}
          </tr>
        </thead>
        <tbody>
          {ordered.map((row) => (
            <tr key={keyOf(row)} {...(isMarked?.(row) === true && { "aria-current": "true" as const })}>
              {columns.map(({ title, cell, isNumber = false }) => (
                <td key={title} class={isNumber ? "number" : ""} data-title={title}>
                  {cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Whether the table overflows its frame. Measured before the first paint, so that the hint does not move the page. */
function useScrolling() {
  const frame = useRef<HTMLDivElement>(null);
  const [isWide, setIsWide] = useState(false);
  const [isHigh, setIsHigh] = useState(false);
  useLayoutEffect(() => {
    const { current } = frame;
    const table = current?.querySelector("table") ?? null;
    if (current === null || table === null) return undefined;
    const resized = new ResizeObserver(() => {
      setIsWide(table.offsetWidth > current.clientWidth);
      setIsHigh(current.scrollHeight > current.clientHeight);
    });
    resized.observe(current);
    resized.observe(table);
    return () => resized.disconnect();
  }, []);
  return { frame, isWide, isHigh };
}

interface HeadingProps<Row> {
  readonly column: Column<Row>;
  readonly sorting: Sorting | null;
  readonly setSorting: (sorting: Sorting) => void;
}

function Heading<Row>({ column, sorting, setSorting }: HeadingProps<Row>) {
  const { title, sortBy, isNumber = false } = column;
  const own = sorting?.title === title ? sorting : null;
  const direction = own?.isDescending === true ? "descending" : "ascending";
  const sort = (): void => setSorting({ title, isDescending: own === null ? isNumber : !own.isDescending });
  return (
    <th
      scope="col"
      class={isNumber ? "number" : ""}
      {...(sortBy !== undefined && { "aria-sort": own === null ? ("none" as const) : direction })}
    >
      {sortBy === undefined ? (
        title
      ) : (
        <button type="button" class="sort" onClick={sort}>
          {title}
        </button>
      )}
    </th>
  );
}

function sortedRows<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  sorting: Sorting | null,
): readonly Row[] {
  const sortBy = columns.find(({ title }) => title === sorting?.title)?.sortBy;
  if (sortBy === undefined) return rows;
  const sign = sorting?.isDescending === true ? -1 : 1;
  return rows.toSorted((one, other) => sign * compare(sortBy(one), sortBy(other)));
}

const compare = (one: number | string, other: number | string): number =>
  typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other));
