/** The accuracy table of the README: a row for each form of a strategy. */
import { type Accuracy, shape } from "./replay.ts";
import { percent, type Row, whole } from "./table.ts";
import { kinds } from "./traffic.ts";

/** Without the last column, which is measured and never the same twice. */
export const accuracyHeader: Row = [
  "strategy",
  ...Object.keys(kinds).map((kind) => `${kind}, over / under %`),
  "over, in all",
  "under, in all",
  "most in a window",
  "bytes per key, mean / most",
];

export function accuracyRow({ form, tallies }: Accuracy): Row {
  const all = [...tallies.values()];
  const sum = (counts: readonly number[]): number => counts.reduce((total, n) => total + n, 0);
  const requests = sum(all.map((tally) => tally.requests));
  const inAll = (count: number): string => `${whole(count)} (${percent(count, requests)} %)`;
  const bytes = all.flatMap((tally) => tally.stateBytes);
  return [
    form.title,
    ...all.map(
      (tally) => `${percent(tally.over, tally.requests)} / ${percent(tally.under, tally.requests)}`,
    ),
    inAll(sum(all.map((tally) => tally.over))),
    inAll(sum(all.map((tally) => tally.under))),
    mostOf(tallies),
    `${whole(sum(bytes) / bytes.length)} / ${whole(Math.max(...bytes))}`,
  ];
}

function mostOf(tallies: Accuracy["tallies"]): string {
  const most = Math.max(...[...tallies.values()].map((tally) => tally.most));
  const worst = [...tallies].filter(([, tally]) => tally.most === most).map(([kind]) => kind);
  const ratio = `${(most / shape.limit).toFixed(2)} × limit`;
  return worst.length === tallies.size ? ratio : `${ratio} (${worst.join(", ")})`;
}
