/** The keys of a policy that were denied most, and those that spent most. */
import { useState } from "preact/hooks";
import type { Policy, TopKey, TopKeys } from "../api/answers.ts";
import { ApiProblem, queryText, read } from "../api/client.ts";
import { type Polled, usePolled } from "../api/poll.ts";
import { Empty, Failure, Loading } from "../parts/notice.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { countText } from "../parts/text.ts";
import { hrefOf } from "../shell/route.ts";
import { may } from "../shell/session.ts";
import { showProblem, showToast } from "../shell/toasts.tsx";
import { readDenials } from "./denial-share.ts";
import { denialColumns, denialKind } from "./denials.ts";
import { keyName, knownKey, revealKey } from "./known-keys.ts";

const pauseMs = 2_500;
const listed = 10;
const kindPauseMs = 10_000;

const useTop = (policy: string, by: TopKeys["by"]): Polled<TopKeys> =>
  usePolled(
    (abort) => read<TopKeys>(`top${queryText({ policy, by, limit: listed })}`, abort),
    pauseMs,
    [policy, by],
  );

export function TopLists({ policy }: { readonly policy: Policy }) {
  const denied = useTop(policy.name, "denied");
  const spent = useTop(policy.name, "cost");
  const { value: points } = usePolled((abort) => readDenials(abort, policy.name), kindPauseMs, [
    policy.name,
  ]);
  const kind = denialKind(points.value ?? [], policy);
  return (
    <>
      <p class="hint">
        The lists cover the current hour and the 23 hours before it. A range means that the exact
        count is somewhere in it.
      </p>
      {may("reveal") && <Reveal policy={policy} lists={[denied, spent]} />}
      <div class="grid top-lists">
        <TopList
          title={`Most ${kind}`}
          unit={denialColumns[kind]}
          policy={policy.name}
          list={denied}
        />
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
      {keys === null && problem.value !== null && (
        <Failure problem={problem.value} onRetry={readAgain} />
      )}
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

interface RevealProps {
  readonly policy: Policy;
  readonly lists: readonly Polled<TopKeys>[];
}

/** The keys are revealed once, and their names stay in this tab. Keys that are listed later need another click. */
function Reveal({ policy: { name, key: parts }, lists }: RevealProps) {
  const [isRevealing, setIsRevealing] = useState(false);
  const [notStored, setNotStored] = useState<ReadonlySet<string>>(new Set());
  const ids = new Set(lists.flatMap(({ value }) => value.value?.keys.map(keyOf) ?? []));
  const hidden = [...ids].filter((id) => knownKey(name, id) === null && !notStored.has(id));
  const reveal = async (): Promise<void> => {
    setIsRevealing(true);
    const missing = await revealAll(name, parts, hidden).finally(() => setIsRevealing(false));
    setNotStored(new Set([...notStored, ...missing]));
  };
  return (
    <p class="row">
      <button
        type="button"
        disabled={isRevealing || hidden.length === 0}
        onClick={() => void reveal().catch(showProblem)}
      >
        Show plain keys
      </button>
      <span class="hint">
        The audit log records each key that is shown, with your name.
        {notStored.size > 0 && ` The plain form of ${keysText(notStored.size)} is not stored.`}
      </span>
    </p>
  );
}

const keysText = (count: number): string => (count === 1 ? "1 key" : `${count} keys`);

/** Returns the ids whose plain key is not stored. */
async function revealAll(
  policy: string,
  parts: readonly string[],
  ids: readonly string[],
): Promise<readonly string[]> {
  const missing = await Promise.all(
    ids.map(async (id) => {
      try {
        await revealKey(policy, parts, id);
        return [];
      } catch (error) {
        if (error instanceof ApiProblem && error.status === 404) return [id];
        throw error;
      }
    }),
  );
  const count = ids.length - missing.flat().length;
  showToast({ text: `${keysText(count)} shown, and recorded in the audit log` });
  return missing.flat();
}
