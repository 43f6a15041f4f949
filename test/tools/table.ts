/** Markdown tables, and the format of their numbers. */

export type Row = readonly string[];

/** A table whose first column is text and whose other columns are numbers. */
export function markdownTable(header: Row, rows: readonly Row[]): string {
  const rule = header.map((_, column) => (column === 0 ? "---" : "---:"));
  return [header, rule, ...rows].map((row) => `| ${row.join(" | ")} |`).join("\n");
}

/** The cells of the first table in a text, without the line below its header. */
export function cellsOf(markdown: string): Row[] {
  const [table = ""] = /(?:^\|.*\n)+/m.exec(`${markdown}\n`) ?? [];
  const rows = table
    .trim()
    .split("\n")
    .map((line) => line.split("|").slice(1, -1));
  return rows.filter((_, line) => line !== 1).map((row) => row.map((cell) => cell.trim()));
}

export const whole = (value: number): string => Math.round(value).toLocaleString("en-US");

/** Three significant digits, the precision of the measurements. */
export const rough = (value: number): string => value.toLocaleString("en-US", { maximumSignificantDigits: 3 });

export const percent = (part: number, all: number): string => ((100 * part) / all).toFixed(2);
