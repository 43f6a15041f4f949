/**
 * Rows below a line that names their columns: CSV (RFC 4180) with commas, semicolons or tabs, and the extended log format of
 * the W3C, which CloudFront and IIS write.
 */
import { lineOf, type LogFieldName, type LogLine } from "./log-line.ts";

interface TableColumns {
  readonly names: readonly string[];
  readonly cellsOf: (row: string) => readonly string[] | null;
}

/** A row with a line break in quotation marks continues in the next line, up to this many characters. */
const longestRow = 65_536;

export class TableRows {
  readonly #times: ReadonlySet<string>;
  #columns: TableColumns | null = null;
  #header = "";
  /** A row whose quotation mark is open. */
  #open = "";

  /** @param times the known fields for the time. A header must name at least one */
  constructor(times: readonly LogFieldName[]) {
    this.#times = new Set(times.map(({ text }) => text));
  }

  /** Reads a directive such as `#Fields: date time c-ip`. Returns whether the line is one. */
  readDirective(line: string): boolean {
    if (!/^#[A-Za-z-]+:/.test(line)) return false;
    const names = /^#Fields:\s*(.+)$/i.exec(line)?.[1]?.split(/\s+/);
    if (names !== undefined) this.#columns = { names: names.map(plainName), cellsOf: cellsOfW3c };
    return true;
  }

  /** Returns whether the line names the columns of rows that follow. Files in one log repeat their header. */
  readHeader(line: string): boolean {
    if (line === this.#header) return true;
    for (const delimiter of [",", ";", "\t"]) {
      const written = line.includes(delimiter) ? cellsOfCsv(line, delimiter) : openRow;
      const names = written === openRow ? [] : written.map(plainName);
      if (!this.#isHeader(names)) continue;
      this.#columns = {
        names,
        cellsOf: (row) => {
          const cells = cellsOfCsv(row, delimiter);
          return cells === openRow ? null : cells;
        },
      };
      this.#header = line;
      return true;
    }
    return false;
  }

  #isHeader(names: readonly string[]): boolean {
    return (
      names.some((name) => this.#times.has(name)) &&
      names.every((name) => /^[\p{L}_@$]/u.test(name)) &&
      new Set(names).size === names.length
    );
  }

  /**
   * Returns the row; null if the row continues in the next line; a reason if it cannot be read; undefined if no columns
   * are known.
   */
  readRow(line: string): LogLine | string | null | undefined {
    const columns = this.#columns;
    if (columns === null || (this.#open === "" && line === this.#header)) return undefined;
    const row = this.#open === "" ? line : `${this.#open}\n${line}`;
    this.#open = "";
    const cells = columns.cellsOf(row);
    if (cells === null) {
      if (row.length > longestRow) return "expected a quotation mark at the end of a cell";
      this.#open = row;
      return null;
    }
    const { names } = columns;
    if (cells.length !== names.length) return `expected ${names.length} columns as in the header, got ${cells.length}`;
    const fields = new Map<string, string>();
    for (const [index, name] of names.entries()) {
      const cell = (cells[index] ?? "").trim();
      if (cell !== "") fields.set(name, cell);
    }
    return lineOf(fields);
  }
}

/** Turns a name such as "Client IP" into `client_ip`. */
const plainName = (name: string): string => name.trim().toLowerCase().replaceAll(/\s+/g, "_");

const cellsOfW3c = (row: string): readonly string[] => row.split(row.includes("\t") ? "\t" : " ");

/** Stands for a row whose last cell continues in the next line. */
const openRow = "open";

function cellsOfCsv(row: string, delimiter: string): readonly string[] | typeof openRow {
  if (!row.includes('"')) return row.split(delimiter);
  const cells: string[] = [];
  for (let from = 0; from <= row.length;) {
    if (row[from] !== '"') {
      const end = row.indexOf(delimiter, from);
      cells.push(row.slice(from, end === -1 ? row.length : end));
      if (end === -1) return cells;
      from = end + 1;
      continue;
    }
    let end = row.indexOf('"', from + 1);
    while (end !== -1 && row[end + 1] === '"') end = row.indexOf('"', end + 2);
    if (end === -1) return openRow;
    cells.push(row.slice(from + 1, end).replaceAll('""', '"'));
    const next = row.indexOf(delimiter, end + 1);
    if (next === -1) return cells;
    from = next + 1;
  }
  return cells;
}
