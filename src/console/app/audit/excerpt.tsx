/** The entries around one that is so old that the page does not load all newer ones. */
import { useMemo } from "preact/hooks";
import type { AuditEntry } from "../api/answers.ts";
import { Empty } from "../parts/notice.tsx";
import { numberText } from "../parts/text.ts";
import { hrefOf } from "../shell/route.ts";
import { EntryList } from "./entries.tsx";
import { History } from "./history.ts";
import { mostReached } from "./loaded-entries.ts";

interface ExcerptProps {
  readonly rows: readonly AuditEntry[];
  readonly named: number;
}

export function Excerpt({ rows, named }: ExcerptProps) {
  const history = useMemo(() => new History(rows), [rows]);
  const [newest, oldest] = [rows[0], rows.at(-1)];
  if (newest === undefined || oldest === undefined || oldest.seq > named) {
    return (
      <Empty>
        The audit log no longer has entry {named}. <a href={hrefOf("audit")}>Show the newest</a>
      </Empty>
    );
  }
  return (
    <>
      <p class="hint">
        These entries have more than {numberText(mostReached)} newer ones, so they are shown without filters, undo and
        rollback. <a href={hrefOf("audit")}>Show the newest entries</a>
      </p>
      <p class="row older">
        <a href={hrefOf("audit", { seq: newest.seq + 1 })}>Newer entries</a>
      </p>
      <EntryList {...{ rows, history, named }} />
      <p class="row older">{oldest.seq > 1 && <a href={hrefOf("audit", { seq: oldest.seq - 1 })}>Older entries</a>}</p>
    </>
  );
}
