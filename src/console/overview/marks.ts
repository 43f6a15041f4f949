/** Changes of rules as marks on the time axis. */
import type { AuditEntry, AuditPage, RuleKind } from "../api/answers.ts";
import { queryText, read } from "../api/client.ts";
import { changeText } from "../parts/change-text.ts";
import type { PlotMark } from "../parts/plot-marks.ts";
import { instantText } from "../parts/text.ts";
import { hrefOf } from "../shell/route.ts";

const pageSize = 200;
/** Older changes have no marks. */
const mostPages = 5;

/** Reads the changes since an instant. */
export async function readChangesSince(
  fromMs: number,
  abort: AbortSignal,
): Promise<readonly AuditEntry[]> {
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
export const marksOf = (entries: readonly AuditEntry[], policy: string | null): PlotMark[] =>
  entries
    .filter(({ action }) => action !== "reveal")
    .filter((entry) => policy === null || entry.policy === null || entry.policy === policy)
    .map((entry) => ({
      atMs: Date.parse(entry.at),
      label: labelOf(entry),
      text: `${instantText(entry.at)}: ${entry.actor} ${changeText(entry)}`,
      href: hrefOf("audit", { seq: entry.seq }),
    }));

const kinds: Readonly<Record<RuleKind, string>> = {
  limits: "limits",
  allow: "allow",
  block: "block",
  mode: "mode",
  deny: "deny entries",
  overrides: "overrides",
};

/** For example "block by ops" or "limits removed by ops". */
function labelOf({ action, before, after, actor }: AuditEntry): string {
  const rule = after ?? before;
  const kind = rule === null ? "rule" : kinds[rule.kind];
  switch (action) {
    case "create":
      return `${kind} by ${actor}`;
    case "replace":
      return `${kind} changed by ${actor}`;
    case "delete":
      return `${kind} removed by ${actor}`;
    case "expire":
      return `${kind} expired`;
    case "reset":
    case "reveal":
    case "rollback":
      return `${action} by ${actor}`;
    default:
      return action satisfies never;
  }
}
