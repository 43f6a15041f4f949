/**
 * `npm run bench -- strategies`: measures the decisions per second of every strategy on one core, compared with two npm
 * libraries, and the size of a snapshot. Each figure is the median of several rounds, in which the contestants take
 * turns.
 */
import { measure } from "mitata";
import { createMeter, type Meter } from "../../src/strategies/index.ts";
import { type DecisionContestant, type Decide, headgate, installClock, type BenchLoad, peers } from "./contestants.ts";
import { type Form, forms, limitsOf } from "./forms.ts";
import { readOptions } from "./options.ts";
import { writtenBytes } from "./snapshot-size.ts";
import { markdownTable, percent, rough, type Row } from "./table.ts";

readOptions("strategies", {});

const rounds = 3;
const roundNs = 250_000_000;

/** Half of the requests are allowed. */
const loads = {
  one: { keys: 1, limit: 500, windowMs: 1_000, everyMs: 1 },
  many: { keys: 100_000, limit: 5, windowMs: 60_000, everyMs: 6_000 },
} satisfies Record<string, BenchLoad>;

const header: Row = [
  "strategy",
  "1 key",
  "100,000 keys",
  ...peers.map(({ title }) => `× ${title}`),
  "largest snapshot, bytes",
];
const logHeader: Row = ["full sliding-log, limit", "decisions/s", "time ÷ fixed-window's", "bytes per entry"];

const contestants: readonly DecisionContestant[] = [...forms.map(headgate), ...peers];

installClock();
const one = await race(loads.one);
const many = await race(loads.many);
const logs = await raceLogs();
report();
// rate-limiter-flexible leaves a timer for each key.
process.exit();

/** @returns the median time of a decision of each contestant, in nanoseconds */
async function race(load: BenchLoad): Promise<Map<string, number>> {
  const times = new Map<string, number[]>(contestants.map(({ title }) => [title, []]));
  for (let round = 0; round < rounds; round++) {
    for (const { title, start } of contestants) {
      const decide = start(load);
      const share = await allowedShare(decide, load);
      if (round === 0) console.log(`keys: ${load.keys}, allowed: ${share}, by ${title}`);
      times.get(title)?.push(await medianNs(decide));
    }
  }
  return new Map([...times].map(([title, taken]) => [title, median(taken)]));
}

async function medianNs(decide: Decide): Promise<number> {
  const { p50 } = await measure(decide, { min_cpu_time: roundNs, gc: false });
  return p50;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

/**
 * Runs two windows of every key, which fills the states and shows that the contestants decide alike. Only the second
 * window counts, after a bucket's initial tokens have been spent.
 */
async function allowedShare(decide: Decide, load: BenchLoad): Promise<string> {
  const perWindow = load.keys * (load.windowMs / load.everyMs);
  let allowed = 0;
  for (let decision = 0; decision < 2 * perWindow; decision++) {
    const answer = decide();
    const isAllowed = typeof answer === "boolean" ? answer : await answer;
    if (isAllowed && decision >= perWindow) allowed++;
  }
  return `${percent(allowed, perWindow)} %`;
}

interface FullLog {
  readonly limit: number;
  readonly ns: number;
  readonly bytesPerEntry: number;
}

async function raceLogs(): Promise<FullLog[]> {
  const limits = [100, 1_000, 10_000, 100_000];
  const taken = limits.map((): number[] => []);
  for (let round = 0; round < rounds; round++) {
    for (const [index, limit] of limits.entries()) {
      taken[index]?.push(await medianNs(fullLog(limit).decide));
    }
  }
  return limits.map((limit, index) => ({
    limit,
    ns: median(taken[index] ?? []),
    bytesPerEntry: writtenBytes(fullLog(limit).meter) / limit,
  }));
}

/**
 * A full log with an entry every two milliseconds and a request every millisecond: for each pair of requests, one entry
 * expires, one request is allowed and one is denied.
 */
function fullLog(limit: number): { meter: Meter; decide: Decide } {
  const log = forms.find(({ strategy }) => strategy === "sliding-log");
  if (log === undefined) throw new Error("the sliding log is not among the forms");
  const meter = createMeter(limitsOf(log, limit, 2 * limit));
  let nowMs = 1_800_000_000_000;
  for (let entry = 0; entry < limit; entry++) meter.consume(1, (nowMs += 2));
  const decide = (): boolean => {
    Date.now();
    return meter.consume(1, ++nowMs).allowed;
  };
  return { meter, decide };
}

/** The largest snapshot during several windows of traffic at twice the limit. */
function busyBytes(form: Form): number {
  const meter = createMeter(limitsOf(form, 100, 60_000));
  let most = 0;
  for (let request = 0; request < 2_000; request++) {
    meter.consume(1, 1_800_000_000_123 + request * 307 + (request % 7) * 31);
    most = Math.max(most, writtenBytes(meter));
  }
  return most;
}

function report(): void {
  const bytes = new Map(forms.map((form) => [form.title, String(busyBytes(form))]));
  const rows = contestants.map(({ title }): Row => {
    const speeds = [one, many].map((times) => rough(perSecond(times, title)));
    const ratios = peers.map((peer) => {
      const times = [one, many].map((taken) => faster(taken, title, peer.title).toFixed(1));
      return bytes.has(title) ? times.join(" / ") : "";
    });
    return [title, ...speeds, ...ratios, bytes.get(title) ?? ""];
  });
  const fixedNs = one.get(forms[0]?.title ?? "") ?? Number.NaN;
  const logRows = logs.map(({ limit, ns, bytesPerEntry }): Row => {
    const ratio = (ns / fixedNs).toFixed(2);
    return [limit.toLocaleString("en-US"), rough(1e9 / ns), ratio, bytesPerEntry.toFixed(1)];
  });
  console.log(`
Decisions per second on one core, Node ${process.version}, median of ${rounds} rounds. All read the same clock at each decision.
Headgate: returns whether the request is allowed, what remains, and three waits. With many keys, the meters are in a Map.
rate-limiter-flexible: RateLimiterMemory.consume, awaited. Fixed windows; returns whether the request is allowed, what remains
and a wait.
limiter: RateLimiter.tryRemoveTokens. A token bucket; returns whether the request is allowed. With many keys, the instances are
in a Map.
limiter with remaining and wait: the same calls of limiter, then getTokensRemaining and getWaitTime.

${markdownTable(header, rows)}

${markdownTable(logHeader, logRows)}`);
}

function perSecond(times: ReadonlyMap<string, number>, title: string): number {
  return 1e9 / (times.get(title) ?? Number.NaN);
}

function faster(times: ReadonlyMap<string, number>, title: string, peer: string): number {
  return perSecond(times, title) / perSecond(times, peer);
}
