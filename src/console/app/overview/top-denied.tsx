/** The keys that a policy denied most, or would have denied in a dry run. */
import type { Policy, TopKey, TopKeys } from "../api/answers.ts";
import { queryText, read } from "../api/client.ts";
import { usePolled } from "../api/poll.ts";
import { readDenials } from "../keys/denial-share.ts";
import { denialColumns, denialKind, type DenialKind, mostDenying } from "../keys/denials.ts";
import { Empty, Failure, Loading } from "../parts/notice.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { countText, shortId } from "../parts/text.ts";
import { hrefOf } from "../shell/route.ts";

const pauseMs = 5_000;
const dayPauseMs = 10_000;

/** The target of a link that skips what is above. */
export const topDeniedId = "top-denied";

interface TopDeniedProps {
  /** Null for the policy that denied most. */
  readonly policy: string | null;
  readonly policies: readonly Policy[];
}

export function TopDenied({ policy: chosen, policies }: TopDeniedProps) {
  const { value, problem, readAgain } = usePolled(readDenials, dayPauseMs);
  const points = value.value;
  const name = chosen ?? mostDenying(points ?? [], policies);
  const policy = policies.find((each) => each.name === name);
  const kind = policy === undefined ? "denied" : denialKind(points ?? [], policy);
  const title = `${titles[kind]}${name === null ? "" : ` of ${name}`}`;
  return (
    <section class="card top-denied" id={topDeniedId} tabIndex={-1}>
      <h2>{title}</h2>
      <p class="hint">The last 24 hours, whatever span is chosen.</p>
      {name !== null && <Keys key={name} policy={name} title={title} column={denialColumns[kind]} />}
      {name === null && points !== null && <Empty>No key was denied.</Empty>}
      {name === null && points === null && problem.value === null && <Loading what="the keys" />}
      {name === null && points === null && problem.value !== null && (
        <Failure problem={problem.value} onRetry={readAgain} />
      )}
    </section>
  );
}

const titles: Readonly<Record<DenialKind, string>> = {
  denied: "Top denied keys",
  "would be denied": "Top keys that would be denied",
  "denied or would be denied": "Top denied and would-be denied keys",
};

interface KeysProps {
  readonly policy: string;
  readonly title: string;
  readonly column: string;
}

function Keys({ policy, title, column }: KeysProps) {
  const { value, problem, readAgain } = usePolled(
    (abort) => read<TopKeys>(`top${queryText({ policy, by: "denied", limit: 10 })}`, abort),
    pauseMs,
    [policy],
  );
  if (value.value === null) {
    if (problem.value === null) return <Loading what="the keys" />;
    return <Failure problem={problem.value} onRetry={readAgain} />;
  }
  const { keys } = value.value;
  if (keys.length === 0) return <Empty>No key was denied.</Empty>;
  return <Table caption={title} columns={columnsOf(policy, column)} rows={keys} keyOf={({ id }) => id} />;
}

const columnsOf = (policy: string, count: string): readonly Column<TopKey>[] => [
  {
    title: "Key",
    cell: ({ id }) => (
      <a class="id" href={hrefOf("keys", { policy, id })}>
        {shortId(id)}
      </a>
    ),
  },
  { title: count, cell: countText, isNumber: true },
];
