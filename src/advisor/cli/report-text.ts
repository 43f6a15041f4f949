/** Numbers, times and tables in the reports of local commands, as plain text of at most 100 columns. */
import { waitText } from "../../strategies/index.ts";
import type { DeniedKey } from "../replay/result.ts";

/** Prints lines as text, and an object as JSON. */
export function printReport(report: readonly string[] | object): void {
  // A reader such as head may close the pipe before the end.
  process.stdout.on("error", (error) => {
    if (Reflect.get(error, "code") !== "EPIPE") throw error;
  });
  console.log(Array.isArray(report) ? report.join("\n") : JSON.stringify(report, null, 2));
}

export const reportColumns = 100;
/** The length of a key's id. Other commands accept ids of this length. */
export const idLength = 43;

export const countText = (count: number): string => count.toLocaleString("en-US");

/** Such as "1 request" or "1,200 requests". */
export const countOf = (count: number, noun: string): string => `${countText(count)} ${noun}${count === 1 ? "" : "s"}`;

/** A share in percent with three digits, such as "0.123 %". */
export function percentText(share: number): string {
  const percent = share * 100;
  if (percent === 0) return "0 %";
  return percent < 0.001 ? "< 0.001 %" : `${Number(percent.toPrecision(3))} %`;
}

/** A part of a whole, such as "12 (0.1 %)". */
export const partText = (part: number, whole: number): string =>
  `${countText(part)} (${percentText(whole === 0 ? 0 : part / whole)})`;

/** Such as "2026-01-05 12:00:00". */
export const clockText = (atMs: number): string => new Date(atMs).toISOString().slice(0, 19).replace("T", " ");

/** A text of at most `width` characters, without control characters. The middle is left out. */
export function fittedText(text: string, width: number): string {
  // oxlint-disable-next-line no-control-regex -- a log can hold escape sequences of the terminal
  const plain = text.replaceAll(/[\u0000-\u001f\u007f-\u009f]/g, "\ufffd");
  if (plain.length <= width) return plain;
  const end = Math.floor((width - 1) / 3);
  return `${plain.slice(0, width - 1 - end)}…${plain.slice(plain.length - end)}`;
}

export interface ReportColumn {
  readonly heading: string;
  /** Default: left. */
  readonly align?: "left" | "right";
}

/** The lines of a table with aligned columns, indented by two spaces. The headings are the first line. */
export function tableLines(columns: readonly ReportColumn[], rows: readonly (readonly string[])[]): string[] {
  const all = [columns.map(({ heading }) => heading), ...rows];
  const widths = columns.map((_, index) => Math.max(...all.map((cells) => (cells[index] ?? "").length)));
  return all.map((cells) =>
    cells
      .map((cell, index) => {
        const width = widths[index] ?? 0;
        return columns[index]?.align === "right" ? cell.padStart(width) : cell.padEnd(width);
      })
      .join("  ")
      .replace(/^/, "  ")
      .trimEnd(),
  );
}

export const right = (heading: string): ReportColumn => ({ heading, align: "right" });

export const durationText = (durationMs: number): string => (durationMs === 0 ? "" : waitText(Math.round(durationMs)));

const keyColumns = [{ heading: "key" }, right("requests"), right("of all"), right("denied"), right("longest denial")];

/** The keys that limits would deny most. */
export const deniedKeyTable = (keys: readonly DeniedKey[]): string[] =>
  tableLines(
    keyColumns,
    keys.map(({ key, requests, shareOfRequests, denied, longestDeniedMs }) => [
      // The id of a key within others has such a part for each level, and other commands accept only the whole id.
      /^[\w-]{43}(?:\.[\w-]{43})+$/.test(key) ? key : fittedText(key, idLength),
      countText(requests),
      percentText(shareOfRequests),
      partText(denied, requests),
      durationText(longestDeniedMs),
    ]),
  );

/** Words in lines of at most `width` characters. A number stays with its percent sign. */
export function wrappedLines(text: string, width = reportColumns, indent = ""): string[] {
  const lines: string[] = [];
  for (const unit of text.replaceAll(" %", "\u00a0%").split(" ")) {
    const word = unit.replaceAll("\u00a0", " ");
    const last = lines.at(-1);
    if (last === undefined) lines.push(word);
    else if (`${last} ${word}`.length <= width) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(indent + word);
  }
  return lines;
}
