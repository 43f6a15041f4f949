/** Measures how soon the first view shows numbers, and how long its tasks are while live data arrive. */
import { setTimeout } from "node:timers/promises";
import { spreadOf } from "../http/statistics.ts";
import { type Figure, type MeasuredSite, openMeasured, policyCount, tasksText, untilTrue } from "./page.ts";

const firstViewTargetMs = 300;

/** Records when the page was loaded, and when the first tile had a number. */
const numbersShown = `
  globalThis.shownMs = null;
  globalThis.loadedMs = null;
  addEventListener("load", () => { loadedMs = performance.now(); });
  const look = () => {
    if (/^[0-9]/.test(document.querySelector(".tiles dd")?.textContent ?? "")) shownMs = performance.now();
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);`;

export async function firstView(site: MeasuredSite, rounds: number): Promise<Figure[]> {
  const waits: number[] = [];
  const totals: number[] = [];
  const shifts: number[] = [];
  for (let round = 0; round < rounds; round++) {
    // oxlint-disable no-await-in-loop
    const { page, performance, close } = await openMeasured(site, "", numbersShown);
    await untilTrue(page, "shownMs !== null && loadedMs !== null");
    const { shownMs, loadedMs } = await page.evaluate<{ shownMs: number; loadedMs: number }>("({ shownMs, loadedMs })");
    waits.push(Math.max(0, shownMs - loadedMs));
    totals.push(shownMs);
    // The layout shifts that content causes when it arrives after the numbers.
    await setTimeout(1_000);
    shifts.push((await performance()).layoutShift);
    await close();
    // oxlint-enable no-await-in-loop
  }
  const { median, lower, upper } = spreadOf(waits);
  const most = Math.max(...shifts);
  return [
    {
      name: `first view after load, median of ${rounds}`,
      text: `${median.toFixed(0)} ms (quartiles ${lower.toFixed(0)} – ${upper.toFixed(0)}), ${spreadOf(totals).median.toFixed(0)} ms after the start of the navigation`,
      isMet: median < firstViewTargetMs,
    },
    { name: "layout shift of the first view", text: most.toFixed(3), isMet: most < 0.001 },
  ];
}

const loadingMs = 4_000;

/** Tasks during the page load are also reported, but the target for the first view covers them. */
export async function liveData(site: MeasuredSite, view: string, seconds: number): Promise<Figure[]> {
  const { page, performance, close } = await openMeasured(site, view);
  await page.getByRole("heading", { level: 1 }).waitFor();
  await setTimeout(loadingMs);
  const { longTasks: loading } = await performance();
  await setTimeout(1_000 * seconds);
  const { longTasks } = await performance();
  await close();
  const live = longTasks.slice(loading.length);
  return [
    {
      name: `tasks over 50 ms in ${seconds} s of ${view} with ${policyCount} policies`,
      text: `${tasksText(live)}; while loading: ${tasksText(loading)}`,
      isMet: live.length === 0,
    },
  ];
}
