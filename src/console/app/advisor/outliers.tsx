/** The keys that the recommended limits would deny most. */
import type { Outlier } from "../../../advisor/search/advice.ts";
import { keyName } from "../keys/known-keys.ts";
import { type Column, Table } from "../parts/table.tsx";
import { numberText, waitText } from "../parts/text.ts";
import { hrefOf } from "../shell/route.ts";
import { shareText } from "./texts.ts";

const keyLinkOf = (policy: string, id: string) => (
  <a class="id" href={hrefOf("keys", { policy, id })}>
    {keyName(policy, id)}
  </a>
);

interface OutliersProps {
  readonly policy: string;
  readonly outliers: readonly Outlier[];
}

export function Outliers({ policy, outliers }: OutliersProps) {
  const columns: readonly Column<Outlier>[] = [
    {
      title: "Key",
      cell: ({ key }) => keyLinkOf(policy, key),
    },
    {
      title: "Requests",
      cell: ({ requests, shareOfRequests }) => `${numberText(requests)} (${shareText(shareOfRequests)})`,
      sortBy: ({ requests }) => requests,
      isNumber: true,
    },
    {
      title: "Denied",
      cell: ({ denied }) => numberText(denied),
      sortBy: ({ denied }) => denied,
      isNumber: true,
    },
    {
      title: "Longest denied",
      cell: ({ longestDeniedMs }) => waitText(longestDeniedMs),
      sortBy: ({ longestDeniedMs }) => longestDeniedMs,
      isNumber: true,
    },
  ];
  return (
    <section class="card" aria-label="Keys that would be denied most">
      <h2>Keys that would be denied most</h2>
      {outliers.length === 0 ? (
        <p class="dim">No sampled key would be denied.</p>
      ) : (
        <Table caption="Denials by key" columns={columns} rows={outliers} keyOf={({ key }) => key} />
      )}
    </section>
  );
}
