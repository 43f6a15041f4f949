/** Answers a page's calls for the audit log with generated entries, so that a test need not create real ones. */
import type { Page } from "playwright-core";
import type { AuditPage } from "../../../src/admin/wire.ts";
import { entry, rule } from "./audit-entries.ts";

export interface GeneratedLog {
  /** The seq of the newest entry, which is also the number of entries. */
  newest: number;
  /** The number of calls for entries of the view. Calls that only look for the newest changes do not count. */
  reads: number;
}

/** Generates entry `seq`. Each pair of entries creates and removes one rule. */
function generated(seq: number): AuditPage["entries"][number] {
  const before = rule({ id: `r${Math.ceil(seq / 2)}`, policy: "many", keyId: `key${seq % 50}` });
  return seq % 2 === 0 ? entry({ seq, action: "delete", before }) : entry({ seq, after: before, note: `Made ${seq}` });
}

/** A page of a log, as the admin API returns it. */
export function generatedPage(newest: number, cursor: string | null, limit: number): AuditPage {
  const first = cursor === null ? newest : Math.min(newest, Number(cursor) - 1);
  const length = Math.max(0, Math.min(limit, first));
  const last = first - length;
  const entries = Array.from({ length }, (_, index) => generated(first - index));
  return { entries, next: last > 0 ? String(last + 1) : null };
}

export async function generateLog(page: Page, newest: number): Promise<GeneratedLog> {
  const log = { newest, reads: 0 };
  await page.route(/\/api\/audit\?/, (route) => {
    const query = new URL(route.request().url()).searchParams;
    const limit = Number(query.get("limit"));
    if (limit >= 100) log.reads += 1;
    return route.fulfill({ json: generatedPage(log.newest, query.get("cursor"), limit) });
  });
  return log;
}

/** Counts the entries that the page adds to its list from now on. Call this before the page is loaded. */
export async function countRows(page: Page): Promise<() => Promise<number>> {
  await page.addInitScript(`
    globalThis.addedRows = 0;
    new MutationObserver((records) => {
      for (const { addedNodes } of records) for (const node of addedNodes) {
        if (node.nodeType !== 1) continue;
        addedRows += node.matches(".entry") ? 1 : node.querySelectorAll(".entry").length;
      }
    }).observe(document, { childList: true, subtree: true });
  `);
  return () => page.evaluate<number>("addedRows");
}
