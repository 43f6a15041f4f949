/** Reads tables of fields: a column with the name, one with the default and one with an example. */
import { type Page, rowsOf } from "./pages.ts";

export interface Field {
  readonly name: string;
  /** A value in code font or words, as Markdown. */
  readonly default: string;
  /** A line of TOML, or words. */
  readonly example: string;
}

/** The rows of the table whose first column is `heading`. */
export function fieldsOf(page: Page, heading: string): Field[] {
  const { columns = [] } = page.tables.find((table) => table.columns[0] === heading) ?? {};
  const cell = (row: readonly string[], column: string): string => row[columns.indexOf(column)] ?? "";
  return rowsOf(page, heading).map((row) => ({
    name: withoutCodeFont(cell(row, heading)),
    default: cell(row, "default"),
    example: withoutCodeFont(cell(row, "example")),
  }));
}

export const namesOf = (fields: readonly Field[]): string[] => fields.map(({ name }) => name).toSorted();

/** The fields that have a value as their default. */
export const withDefault = (fields: readonly Field[]): Field[] =>
  fields.filter(({ default: fallback }) => fallback.startsWith("`"));

/** The default value, without its code font. */
export const valueOf = (fallback: string): unknown => JSON.parse(withoutCodeFont(fallback));

const withoutCodeFont = (text: string): string => text.replace(/^`(.*)`$/, "$1");
