/**
 * The live traffic of this tab. It is sampled in every view while an operator is signed in and the page is visible, so that the
 * overview shows what happened before it was opened, such as before a change under "Keys".
 */
import type { Statistics } from "../api/answers.ts";
import { queryText, read } from "../api/client.ts";
import { Polling } from "../api/poll.ts";
import { now } from "../clock.ts";
import { may, session } from "../shell/session.ts";
import { LiveTraffic } from "./live-traffic.ts";
import type { CountedTraffic } from "./traffic.ts";

const pauseMs = 5_000;
/** The live span reads more often by itself. */
const recentMs = 4_000;
/** A sample that has just arrived is shown as it is, such as when the overview opens. */
const freshMs = 1_000;

let live = new LiveTraffic();
let polling: Polling<void> | null = null;

/** Reads the statistics up to now. */
async function sample(abort: AbortSignal): Promise<LiveTraffic> {
  // Another operator may have signed in when the answer arrives.
  const sampled = live;
  const from = new Date(sampled.fromMs(now())).toISOString();
  const path = `stats${queryText({ from, step: "1m" })}`;
  const statistics = await read<Statistics>(path, abort).catch((error: unknown) => {
    if (!abort.aborted) sampled.fail();
    throw error;
  });
  sampled.add(statistics, now());
  return sampled;
}

export async function readLiveTraffic(abort: AbortSignal): Promise<CountedTraffic> {
  const isFresh = now() - live.readAtMs < freshMs;
  return (isFresh ? live : await sample(abort)).traffic();
}

async function sampleUnlessRecent(abort: AbortSignal): Promise<void> {
  if (now() - live.readAtMs >= recentMs) await sample(abort);
}

session.subscribe(({ kind }) => {
  polling?.stop();
  polling = null;
  if (kind === "signed-in" && may("read")) {
    polling = new Polling(sampleUnlessRecent, pauseMs);
    polling.start();
  } else {
    live = new LiveTraffic();
  }
});
