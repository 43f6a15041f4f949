/** The accuracy tables. They have a row for each form of a strategy, and cover all traffic and each kind of traffic. */
import { type Accuracy, shape } from "./accuracy-replay.ts";
import { percent, type Row, whole } from "./table.ts";
import { kinds } from "./traffic.ts";

/** Equal in every run. The command adds the decisions per second, which vary. */
export const accuracyHeader: Row = [
  "strategy",
  "over-admitted",
  "under-admitted",
  "most in a window",
  "bytes per key, mean / most",
];

export function accuracyRow({ form, tallies }: Accuracy): Row {
  const all = [...tallies.values()];
  const requests = sumOf(all.map((tally) => tally.requests));
  const inAll = (count: number): string => `${whole(count)} (${percent(count, requests)} %)`;
  const bytes = all.flatMap((tally) => tally.stateBytes);
  return [
    form.title,
    inAll(sumOf(all.map((tally) => tally.over))),
    inAll(sumOf(all.map((tally) => tally.under))),
    mostOf(tallies),
    `${whole(sumOf(bytes) / bytes.length)} / ${whole(Math.max(...bytes))}`,
  ];
}

/** In percent of the requests of each kind. */
export const kindsHeader: Row = ["over / under, %", ...Object.keys(kinds)];

export function kindsRow({ form, tallies }: Accuracy): Row {
  const shares = [...tallies.values()].map(({ over, under, requests }) =>
    [over, under].map((count) => percent(count, requests)).join(" / "),
  );
  return [form.title, ...shares];
}

const sumOf = (counts: readonly number[]): number => counts.reduce((total, n) => total + n, 0);

function mostOf(tallies: Accuracy["tallies"]): string {
  const most = Math.max(...[...tallies.values()].map((tally) => tally.most));
  const worst = [...tallies].filter(([, tally]) => tally.most === most).map(([kind]) => kind);
  const ratio = `${(most / shape.limit).toFixed(2)} × limit`;
  return worst.length === tallies.size ? ratio : `${ratio} (${worst.join(", ")})`;
}
