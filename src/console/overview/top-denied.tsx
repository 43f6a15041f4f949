/** The keys that a policy denied most. */
import type { Policy, TopKey, TopKeys } from "../api/answers.ts";
import { queryText, read } from "../api/client.ts";
import { usePolled } from "../api/poll.ts";
import { Empty, Failure, Loading } from "../parts/notice.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { countText, shortId } from "../parts/text.ts";
import { hrefOf } from "../shell/route.ts";
import { numbersOf } from "./tally.ts";
import type { CountedTraffic } from "./traffic.ts";

const pauseMs = 5_000;

/** The configured policy with the most denials; null when none has denied anything. */
export function mostDenied(
  { policies }: CountedTraffic,
  configured: readonly Policy[],
): string | null {
  let most: string | null = null;
  let denials = 0;
  for (const { name } of configured) {
    const traffic = policies.get(name);
    if (traffic === undefined) continue;
    const { denied, dryRunDenied } = numbersOf(traffic.total);
    if (denied + dryRunDenied <= denials) continue;
    most = name;
    denials = denied + dryRunDenied;
  }
  return most;
}

export const TopDenied = ({ policy }: { readonly policy: string | null }) => (
  <section class="card top-denied">
    <h2>Top denied keys{policy === null ? "" : ` of ${policy}`}</h2>
    <p class="hint">The last 24 hours, whatever span is chosen.</p>
    {policy === null ? (
      <Empty>No key was denied in this span.</Empty>
    ) : (
      <Keys key={policy} policy={policy} />
    )}
  </section>
);

function Keys({ policy }: { readonly policy: string }) {
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
  return (
    <Table
      caption={`Top denied keys of ${policy}`}
      columns={columnsOf(policy)}
      rows={keys}
      keyOf={({ id }) => id}
    />
  );
}

const columnsOf = (policy: string): readonly Column<TopKey>[] => [
  {
    title: "Key",
    cell: ({ id }) => (
      <a class="id" href={hrefOf("keys", { policy, id })}>
        {shortId(id)}
      </a>
    ),
  },
  { title: "Denied", cell: countText, isNumber: true },
];
