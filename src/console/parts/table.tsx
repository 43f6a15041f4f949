/** A table whose columns can be sorted. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

export interface Column<Row> {
  readonly title: string;
  readonly cell: (row: Row) => ComponentChildren;
  /** The value that orders the rows; absent for a column that cannot be sorted. */
  readonly sortBy?: (row: Row) => number | string;
  readonly isNumber?: boolean;
}

interface TableProps<Row> {
  readonly caption: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string | number;
  /** The column and direction before the user chooses one. Default: the order of the rows. */
  readonly sorted?: Sorting;
}

interface Sorting {
  readonly title: string;
  readonly isDescending: boolean;
}

/** The frame scrolls by itself on narrow screens, so it can have the focus. */
export function Table<Row>({ caption, columns, rows, keyOf, sorted }: TableProps<Row>) {
  const [sorting, setSorting] = useState<Sorting | null>(sorted ?? null);
  const ordered = sortedRows(rows, columns, sorting);
  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a part that scrolls must be reachable by keyboard
    <div class="table-frame" role="region" aria-label={caption} tabIndex={0}>
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
            <tr key={keyOf(row)}>
              {columns.map(({ title, cell, isNumber = false }) => (
                <td key={title} class={isNumber ? "number" : ""}>
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

function Heading<Row>({
  column: { title, sortBy, isNumber = false },
  sorting,
  setSorting,
}: {
  readonly column: Column<Row>;
  readonly sorting: Sorting | null;
  readonly setSorting: (sorting: Sorting) => void;
}) {
  const numberClass = isNumber ? "number" : "";
  if (sortBy === undefined) {
    return (
      <th scope="col" class={numberClass}>
        {title}
      </th>
    );
  }
  const own = sorting?.title === title ? sorting : null;
  const direction = own?.isDescending === true ? "descending" : "ascending";
  return (
    <th scope="col" class={numberClass} aria-sort={own === null ? "none" : direction}>
      <button
        type="button"
        class="sort"
        onClick={() =>
          setSorting({ title, isDescending: own === null ? isNumber : !own.isDescending })
        }
      >
        {title}
      </button>
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
  typeof one === "number" && typeof other === "number"
    ? one - other
    : String(one).localeCompare(String(other));
