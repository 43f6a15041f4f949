/**
 * Lists of keys: the levels of a key in its tree, which must allow its requests too, its busiest children, and the top keys of a
 * policy.
 */
import type { ExplainedLevel, PolicyView, TopKeyList, TopKeyView } from "../../../admin/wire.ts";
import { queryText, read } from "../api/client.ts";
import { type Polling, usePolled } from "../api/poll.ts";
import { Empty, Reading } from "../parts/notice.tsx";
import { type Column, numberColumn, Table } from "../parts/table.tsx";
import { countText, numberText } from "../parts/text.ts";
import { hrefOf } from "../shell/route.ts";
import { keyName } from "./known-keys.ts";

const keyLink = (policy: string, id: string) => (
  <a class="id" href={hrefOf("keys", { policy, id })}>
    {keyName(policy, id)}
  </a>
);

const usedText = ({ limits }: ExplainedLevel): string =>
  limits
    .map(({ used, capacity }) => `${used === null ? "not known" : numberText(used)} of ${numberText(capacity)}`)
    .join(", ");

const columnsFor = (own: string): readonly Column<ExplainedLevel>[] => [
  { title: "Policy", cell: ({ policy }) => policy },
  { title: "Key", cell: ({ policy, id }) => (policy === own ? "this key" : keyLink(policy, id)) },
  { title: "Used", cell: usedText },
  { title: "Alone", cell: ({ allowed, text }) => <span class={allowed ? "allowed" : "denied"}>{text}</span> },
];

interface LevelsProps {
  readonly policy: string;
  /** The root first, this key last. */
  readonly levels: readonly ExplainedLevel[];
}

export const Levels = ({ policy, levels }: LevelsProps) => (
  <section class="card" aria-label="Levels of this key">
    <h2>Levels of this key</h2>
    <p class="hint">A request is charged to all levels or to none. Each level must allow it.</p>
    <Table caption="Usage of each level" columns={columnsFor(policy)} rows={levels} keyOf={(level) => level.policy} />
  </section>
);

const childrenPauseMs = 5_000;
const mostChildren = 10;

interface ChildrenProps {
  /** The policy directly within that of the key. */
  readonly child: PolicyView;
  readonly id: string;
}

/** The keys of a policy within this one that have spent most, as far as the top lists have them. */
export function BusiestChildren({ child: { name }, id }: ChildrenProps) {
  const query = queryText({ policy: name, by: "cost", within: id, limit: mostChildren });
  const list = usePolled((abort) => read<TopKeyList>(`top${query}`, abort), childrenPauseMs);
  const title = `Busiest keys of ${name} within this key`;
  return <TopList title={title} unit="Spent units" policy={name} list={list} empty="None in the last 24 hours." />;
}

interface TopListProps {
  readonly title: string;
  readonly unit: string;
  readonly policy: string;
  readonly list: Polling<TopKeyList>;
  /** The text in place of a list without keys. */
  readonly empty: string;
}

/** The keys of a policy that come first by their counts of the last 24 hours. */
export function TopList({ title, unit, policy, list, empty }: TopListProps) {
  const columns: readonly Column<TopKeyView>[] = [
    { title: "Key", cell: ({ id }) => keyLink(policy, id) },
    numberColumn(unit, ({ count }) => count, countText),
  ];
  return (
    <section class="card" aria-label={title}>
      <h2>{title}</h2>
      <Reading of={list} what="the keys">
        {({ keys }) =>
          keys.length === 0 ? (
            <Empty>{empty}</Empty>
          ) : (
            <Table caption={`${title}, last 24 hours`} columns={columns} rows={keys} keyOf={({ id }) => id} />
          )
        }
      </Reading>
    </section>
  );
}
