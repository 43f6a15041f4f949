/** Finds the format of each line. */
import { CommonLine } from "./common-line.ts";
import { JsonLine, type LogFieldName, type LogLine } from "./log-line.ts";
import { parseProxyLine } from "./proxy-lines.ts";
import { TableRows } from "./table-rows.ts";

/** Returns null when the line fits none of the formats that need no header. */
export function parseLine(line: string): LogLine | null {
  if (line.startsWith("{")) return JsonLine.parse(line);
  const common = CommonLine.parse(line);
  return common?.hasRequest === true ? common : (parseProxyLine(line) ?? common);
}

/**
 * Reads lines of all formats, which may be mixed. Returns a text with the reason if a line cannot be read, and null for
 * a header or for a row that continues in the next line.
 * @param times the known fields for the time. The header of a table must name at least one
 * @param accepted what is expected of a line that no format fits
 */
export function lineParser(
  times: readonly LogFieldName[],
  accepted: string,
): (line: string) => LogLine | string | null {
  const table = new TableRows(times);
  return (text) => {
    if (text.startsWith("{")) return JsonLine.parse(text) ?? "expected an object in JSON";
    if (text.startsWith("#") && table.readDirective(text)) return null;
    const row = table.readRow(text);
    if (row !== undefined && typeof row !== "string") return row;
    const line = parseLine(text);
    if (line !== null) return line;
    return table.readHeader(text) ? null : (row ?? `expected ${accepted}`);
  };
}
