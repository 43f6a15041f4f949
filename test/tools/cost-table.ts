/**
 * The cost table, with a row for each shape of traffic. All figures except the denied share are per million decisions.
 */
import { type ShapeCost, objectDollars, perMillion, workerDollars } from "./cost-replay.ts";
import { type Row, rough, whole } from "./table.ts";

export const costHeader: Row = [
  "traffic",
  "denied",
  "rows written",
  "object calls",
  "alarms",
  "object seconds",
  "objects add",
  "with the Worker",
];

export function costRow({ shape, bill }: ShapeCost): Row {
  const counts = [bill.rowsWritten, bill.calls, bill.alarms, bill.activeSeconds];
  const objects = perMillion(objectDollars(bill), bill);
  const worker = perMillion(workerDollars(bill), bill);
  return [
    `**${shape.name}**: ${shape.traffic}`,
    `${whole((100 * bill.denied) / bill.decisions)} %`,
    ...counts.map((count) => rough(perMillion(count, bill))),
    ...[objects, objects + worker].map((dollars) => `$${dollars.toFixed(2)}`),
  ];
}
