/** Measures the memory of a live tail that stays open for a long time. */
import { setTimeout } from "node:timers/promises";
import { heapBytes } from "../../console/app/page-checks.ts";
import { spreadOf } from "../http/statistics.ts";
import { type Figure, type MeasuredSite, openMeasured } from "./page.ts";

const minuteMs = 60_000;
/** The heap counts as flat if the second half of the minutes uses at most this much more than the first half. */
const mostGrowthBytes = 500_000;

/** The first minute fills the list of denials and is not measured. */
export async function tailMemory(site: MeasuredSite, minutes: number): Promise<Figure[]> {
  const { page, close } = await openMeasured(site, "live");
  const heaps: number[] = [];
  for (let minute = 0; minute <= minutes; minute++) {
    // oxlint-disable no-await-in-loop
    await setTimeout(minuteMs);
    heaps.push(await heapBytes(page));
    // oxlint-enable no-await-in-loop
  }
  await close();
  const half = Math.ceil(heaps.length / 2);
  const growth = spreadOf(heaps.slice(half)).median - spreadOf(heaps.slice(0, half)).median;
  return [
    {
      name: `growth of the heap between the halves of ${minutes} minutes of tail`,
      text: `${(growth / 1e3).toFixed(0)} kB; MB after each minute: ${heaps.map((bytes) => (bytes / 1e6).toFixed(2)).join(" ")}`,
      isMet: growth < mostGrowthBytes,
    },
  ];
}
