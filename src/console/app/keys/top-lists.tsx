/** The keys of a policy that were denied most, and those that spent most. */
import type { Policy, TopKey, TopKeys } from "../api/answers.ts";
import { queryText, read } from "../api/client.ts";
import { type Polled, usePolled } from "../api/poll.ts";
import { Empty, Failure, Loading } from "../parts/notice.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { countText } from "../parts/text.ts";
import { hrefOf } from "../shell/route.ts";
import { readDenials } from "./denial-share.ts";
import { denialColumns, denialKind } from "./denials.ts";
import { keyName } from "./known-keys.ts";
import { RevealKeys } from "./reveal-keys.tsx";

const pauseMs = 2_500;
const listed = 10;
const kindPauseMs = 10_000;

const useTop = (policy: string, by: TopKeys["by"]): Polled<TopKeys> =>
  usePolled((abort) => read<TopKeys>(`top${queryText({ policy, by, limit: listed })}`, abort), pauseMs, [policy, by]);

export function TopLists({ policy }: { readonly policy: Policy }) {
  const denied = useTop(policy.name, "denied");
  const spent = useTop(policy.name, "cost");
  const { value: points } = usePolled((abort) => readDenials(abort, policy.name), kindPauseMs, [policy.name]);
  const kind = denialKind(points.value ?? [], policy);
  return (
    <>
      <p class="hint">
        The lists cover the current hour and the 23 hours before it. A range means that the exact count is somewhere in
        it.
      </p>
      <RevealKeys
        policy={policy.name}
        parts={policy.key}
        ids={[denied, spent].flatMap(({ value }) => value.value?.keys.map(keyOf) ?? [])}
      />
      <div class="grid top-lists">
        <TopList title={`Most ${kind}`} unit={denialColumns[kind]} policy={policy.name} list={denied} />
        <TopList title="Most spent" unit="Spent units" policy={policy.name} list={spent} />
      </div>
    </>
  );
}

interface ListProps {
  readonly title: string;
  readonly unit: string;
  readonly policy: string;
  readonly list: Polled<TopKeys>;
}

function TopList({ title, unit, policy, list: { value, problem, readAgain } }: ListProps) {
  const keys = value.value?.keys ?? null;
  const columns: readonly Column<TopKey>[] = [
    { title: "Key", cell: ({ id }) => keyLink(policy, id) },
    { title: unit, cell: countText, sortBy: ({ count }) => count, isNumber: true },
  ];
  return (
    <section class="card" aria-label={title}>
      <h2>{title}</h2>
      {keys === null && problem.value === null && <Loading what="the keys" />}
      {keys === null && problem.value !== null && <Failure problem={problem.value} onRetry={readAgain} />}
      {keys?.length === 0 && <Empty>No key yet.</Empty>}
      {keys !== null && keys.length > 0 && (
        <Table caption={`${title}, last 24 hours`} columns={columns} rows={keys} keyOf={keyOf} />
      )}
    </section>
  );
}

const keyLink = (policy: string, id: string) => (
  <a class="id" href={hrefOf("keys", { policy, id })}>
    {keyName(policy, id)}
  </a>
);

const keyOf = ({ id }: TopKey): string => id;
