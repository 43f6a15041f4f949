/** The numbers of each way to decide the traffic, side by side. */
import { type Column, Table } from "../parts/table.tsx";
import { durationText, numberText, percentText } from "../parts/text.ts";
import type { Comparison, DecidedTraffic, RetryingTraffic } from "../replay/comparison.ts";
import { rangeText } from "./sample-texts.ts";

interface DenialNumbersProps {
  readonly comparison: Comparison;
  readonly titles: readonly string[];
  readonly isOneKey: boolean;
}

interface Row {
  readonly title: string;
  readonly cell: (traffic: DecidedTraffic) => string;
}

export function DenialNumbers({ comparison, titles, isOneKey }: DenialNumbersProps) {
  const columns: readonly Column<Row>[] = [
    { title: "Last 24 hours", cell: ({ title }) => title },
    ...comparison.results.map((traffic, index) => ({
      title: titles[index] ?? "",
      cell: ({ cell }: Row) => cell(traffic),
      isNumber: true,
    })),
  ];
  return (
    <Table
      caption="Denied in the last 24 hours"
      columns={columns}
      rows={rowsOf(comparison, isOneKey)}
      keyOf={({ title }) => title}
    />
  );
}

const share = (part: number, whole: number): string => `${numberText(part)} (${percentText(part, whole)})`;

function rowsOf({ requests, keys, results, source: { oneKeyIn } }: Comparison, isOneKey: boolean): readonly Row[] {
  const isSample = oneKeyIn > 1 && !isOneKey;
  const rows: (Row & { readonly isShown: boolean })[] = [
    {
      title: "Requests denied",
      cell: ({ denied }) => share(denied, requests),
      isShown: true,
    },
    {
      title: "Of all requests (95 % interval)",
      cell: ({ deniedShare }) => rangeText(deniedShare),
      isShown: isSample,
    },
    {
      title: "Keys denied",
      cell: ({ deniedKeys }) => share(deniedKeys, keys),
      isShown: !isOneKey,
    },
    {
      title: "Of all keys (95 % interval)",
      cell: ({ deniedKeyShare }) => rangeText(deniedKeyShare),
      isShown: isSample,
    },
    {
      title: isOneKey ? "Longest denial" : "Longest denial of a key",
      cell: ({ longestDeniedMs: ms }) => (ms === null ? "–" : durationText(ms)),
      isShown: results.some(({ longestDeniedMs }) => longestDeniedMs !== null),
    },
    ...retryRows.map((row) => ({
      ...row,
      isShown: results.some(({ retrying }) => retrying !== null),
    })),
  ];
  return rows.filter(({ isShown }) => isShown);
}

const ifRetried =
  (text: (retrying: RetryingTraffic) => string): Row["cell"] =>
  ({ retrying }) =>
    retrying === null ? "–" : text(retrying);

const retryRows: readonly Row[] = [
  {
    title: "If clients retry: denied at first",
    cell: ifRetried(({ denied }) => numberText(denied)),
  },
  {
    title: "If clients retry: given up",
    cell: ifRetried(({ abandoned }) => numberText(abandoned)),
  },
  {
    title: "If clients retry: longest wait",
    cell: ifRetried(({ longestWaitMs }) => durationText(longestWaitMs)),
  },
];
