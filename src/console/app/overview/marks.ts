/** Changes of rules as marks on the time axis. */
import type { AuditEntry, AuditPage, Policy } from "../api/answers.ts";
import { queryText, read } from "../api/client.ts";
import { changeText } from "../parts/rule-text.ts";
import type { PlotMark } from "../parts/plot-data.ts";
import { instantText } from "../parts/text.ts";
import { hrefOf } from "../shell/route.ts";
import { changeLabel } from "./change-label.ts";

const pageSize = 200;
/** Older changes have no marks. */
const mostPages = 5;

/** Reads the changes since an instant. */
export async function readChangesSince(fromMs: number, abort: AbortSignal): Promise<readonly AuditEntry[]> {
  const entries: AuditEntry[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < mostPages; page++) {
    const query = queryText({ limit: pageSize, cursor });
    // oxlint-disable-next-line no-await-in-loop -- a page has the cursor of the next
    const { entries: read_, next } = await read<AuditPage>(`audit${query}`, abort);
    entries.push(...read_);
    const oldest = read_.at(-1);
    if (next === null || oldest === undefined || Date.parse(oldest.at) < fromMs) break;
    cursor = next;
  }
  return entries.filter(({ at }) => Date.parse(at) >= fromMs);
}

/** @param policy null for the changes of all policies */
export const marksOf = (
  entries: readonly AuditEntry[],
  policy: string | null,
  policies: readonly Policy[],
): PlotMark[] =>
  entries
    .filter(({ action }) => action !== "reveal")
    .filter((entry) => policy === null || entry.policy === null || entry.policy === policy)
    .map((entry) => {
      const label = changeLabel(entry, policies);
      return {
        atMs: Date.parse(entry.at),
        label: entry.action === "expire" ? label : `${label} by ${entry.actor}`,
        shortLabel: label,
        text: `${instantText(entry.at)}: ${entry.actor} ${changeText(entry)}`,
        href: hrefOf("audit", { seq: entry.seq }),
      };
    });
