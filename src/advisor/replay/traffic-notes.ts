/** Sentences about what a recording cannot show of its traffic. */
import { arrivalOutcomes, isDeniedOutcome, type Timelines } from "./timelines.ts";

/** A smaller share of denials hardly changes the traffic. */
const leastDenied = 0.01;

const percent = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 2 });
const whole = new Intl.NumberFormat("en-US");

export function trafficNotes(timelines: Timelines): string[] {
  const { atMs, source } = timelines;
  const denied = deniedArrivals(timelines);
  const notes: string[] = [];
  if (denied > 0 && denied >= leastDenied * atMs.length) {
    notes.push(
      `Limits were in force: ${deniedText(denied, atMs.length)} denied (status 429), so the recording shows what was left after limits, not the demand. Clients that slow down after a denial would send more without it: the true denials and bursts are then greater than shown, and a recommended limit is too strict. Clients that retry have sent requests that would not come under a more generous limit: its true denials are then fewer than shown.`,
    );
  }
  if (source.hasWholeSeconds === true) {
    notes.push(
      "The times are whole seconds, so each request is replayed at a random instant of its second. Limits with windows below a minute depend on these instants: npm run advise widens their intervals to the best and the worst case. Log milliseconds to choose such limits.",
    );
  }
  return notes;
}

function deniedText(denied: number, requests: number): string {
  if (requests === 1) return "the only request was";
  const share = `(${percent.format((100 * denied) / requests)} %)`;
  return `${whole.format(denied)} of these ${whole.format(requests)} requests ${share} ${denied === 1 ? "was" : "were"}`;
}

/** Requests that limits denied when they were recorded. Dry runs deny nothing. */
export function deniedArrivals({ outcome }: Pick<Timelines, "outcome">): number {
  const isDenied = arrivalOutcomes.map((name) => name !== "dry-run-denied" && isDeniedOutcome(name));
  let denied = 0;
  for (const each of outcome) if (isDenied[each] === true) denied++;
  return denied;
}
