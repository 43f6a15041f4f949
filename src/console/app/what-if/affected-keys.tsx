/** The keys that a change affects most. */
import { keyName } from "../keys/known-keys.ts";
import { RevealKeys } from "../keys/reveal-keys.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { numberText, percentText } from "../parts/text.ts";
import type { AffectedKey, Comparison } from "../replay/comparison.ts";
import { hrefOf } from "../shell/route.ts";
import type { DecidedChange } from "./read-ways.ts";
import { countOf } from "./sample-texts.ts";

interface AffectedKeysProps {
  readonly change: DecidedChange;
  readonly comparison: Comparison;
}

export function AffectedKeys({ change, comparison }: AffectedKeysProps) {
  const { policy, parts, titles } = change;
  const { affected, affectedKeys } = comparison;
  if (affected.length === 0) return <p>No denials of a sampled key differ.</p>;
  const columns: readonly Column<AffectedKey>[] = [
    { title: "Key", cell: ({ key }) => keyLink(policy, key) },
    { title: "Requests", cell: ({ requests }) => numberText(requests), isNumber: true },
    {
      title: "Share",
      cell: ({ shareOfRequests }) => percentText(shareOfRequests, 1),
      isNumber: true,
    },
    ...titles.map((title, index) => ({
      title: `Denied: ${title.toLowerCase()}`,
      cell: ({ denied }: AffectedKey) => numberText(denied[index] ?? 0),
      isNumber: true,
    })),
  ];
  return (
    <>
      <p>
        The denials of {countOf(affectedKeys, "key")} differ
        {affectedKeys > affected.length && `; the ${affected.length} most affected ones are listed`}.
      </p>
      {parts !== undefined && <RevealKeys policy={policy} parts={parts} ids={affected.map(({ key }) => key)} />}
      <Table caption="Keys affected most" columns={columns} rows={affected} keyOf={({ key }) => key} />
    </>
  );
}

/** Opens beside the dialog, so that nothing typed is lost. The new tab needs the opener for the token of this one. */
const keyLink = (policy: string, id: string) => (
  <a class="id" href={hrefOf("keys", { policy, id })} target="_blank" rel="opener">
    {keyName(policy, id)}
    <span class="hidden"> (opens in a new tab)</span>
  </a>
);
