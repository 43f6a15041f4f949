/**
 * Traffic in workerd by the real clock. A replay of the recorded samples under the same limits makes every decision
 * that the Worker and its objects made.
 */
import { expect, it } from "vitest";
import { parseConfig } from "../../src/policy/vars/config.ts";
import { replayAll } from "../../src/advisor/replay/replay.ts";
import { type Samples, SamplesReader } from "../../src/advisor/replay/read-samples.ts";
import { arrivalOutcomes } from "../../src/advisor/replay/timelines.ts";
import { type Random, randomFrom } from "../random.ts";
import { headgate } from "../http/harness.ts";
import { tokens } from "./admin.ts";

const prefix = `recorded-${crypto.randomUUID().slice(0, 8)}`;
/** The window is short enough to begin anew on fast machines. */
const tight = { limit: 3, window: "1s" };
const limitsOf: Readonly<Record<string, object | readonly object[]>> = {
  fixed: { ...tight, strategy: "fixed-window", align: "clock" },
  counter: { ...tight, strategy: "sliding-window-counter" },
  log: { ...tight, strategy: "sliding-log" },
  buckets: { ...tight, strategy: "sliding-buckets" },
  tokens: { ...tight, strategy: "token-bucket" },
  queue: { ...tight, strategy: "leaky-bucket" },
  slots: { limit: 3, window: "30s", strategy: "concurrency" },
  several: [
    { name: "burst", ...tight, strategy: "token-bucket" },
    { name: "long", limit: 12, window: "3s", strategy: "sliding-log" },
  ],
};
const names = Object.keys(limitsOf);
const POLICIES = names.map((name) => ({
  name: `${prefix}-${name}`,
  key: "header:x-client",
  objects: "sharded",
  shards: 2,
  limits: limitsOf[name],
  // A busy machine may answer late.
  timeout: "10s",
}));
const rounds = 40;
/** Units that are spent at once before the rounds. Every limit denies some of them, however slow the machine is. */
const burst = 5;

interface Counted {
  allowed: number;
  denied: number;
}

const gate = headgate({ POLICIES, ADMIN_TOKENS: tokens.all, SAMPLE: "1/1" });
const read = { headers: { Authorization: `Bearer ${tokens.all}` } };

async function charge(policy: string, random: Random, counts: Counted): Promise<void> {
  const cost = 1 + Math.floor(random() * 2);
  const body = { policy, key: random() < 0.5 ? "one" : "other", cost };
  if (random() < 0.5 && !policy.endsWith("-slots")) {
    count(counts, await answerTo("POST", "/check", body));
    return;
  }
  const answer = await answerTo("POST", "/check/reserve", { ...body, ttlMs: 20_000 });
  count(counts, answer);
  const { id } = answer;
  if (id === null) return;
  const actual = Math.floor(random() * (cost + 1));
  const settling = { id, cost: actual };
  if (random() < 0.5) await answerTo("POST", "/check/settle", settling);
  else open.push(settling);
}

/** Reservations that a later round settles. */
const open: object[] = [];

function count(counts: Counted, { allowed }: { readonly allowed: boolean }): void {
  if (allowed) counts.allowed++;
  else counts.denied++;
}

async function answerTo(method: string, path: string, body: object) {
  const response = await gate.check(method, path, body);
  expect(response.status).toBe(200);
  return response.json<{ readonly allowed: boolean; readonly id: string | null }>();
}

/** The samples of a policy, once that many arrivals are stored. Reading the statistics makes beats frequent. */
async function storedSamples(policy: string, arrivals: number): Promise<Samples> {
  const untilMs = Date.now() + 20_000;
  for (;;) {
    // oxlint-disable no-await-in-loop
    await gate.send("/_headgate/api/stats", read).then((response) => response.text());
    const response = await gate.send(`/_headgate/api/samples?policy=${policy}`, read);
    const reader = new SamplesReader();
    const text = new TextDecoder().decode(await response.arrayBuffer());
    for (const line of text.split("\n")) reader.line(line);
    const samples = reader.finish();
    if (samples.header.arrivals >= arrivals || Date.now() > untilMs) return samples;
    // A look starts a beat when one is due, and charges nothing.
    await answerTo("POST", "/check", { limits: "1/s", key: "nobody", cost: 0 });
    // oxlint-enable no-await-in-loop
  }
}

const timeout = 60_000;

it("a replay of the samples of a deployment reproduces every decision, by every strategy", { timeout }, async () => {
  const random = randomFrom(1);
  const counted = new Map(POLICIES.map(({ name }) => [name, { allowed: 0, denied: 0 }]));
  await gate.send("/_headgate/api/stats", read).then((response) => response.text());
  const spendOne = async (policy: string, counts: Counted): Promise<void> =>
    count(counts, await answerTo("POST", "/check/reserve", { policy, key: "one", cost: 1, ttlMs: 20_000 }));
  const policiesOfBurst = [...counted].flatMap((each) => Array.from({ length: burst }, () => each));
  await Promise.all(policiesOfBurst.map(([name, counts]) => spendOne(name, counts)));
  for (let round = 0; round < rounds; round++) {
    const charges = [...counted].map(([name, counts]) => charge(name, random, counts));
    // oxlint-disable-next-line no-await-in-loop -- one round after the other
    await Promise.all(charges);
    const due = open.splice(0, random() < 0.4 ? open.length : 0);
    // oxlint-disable-next-line no-await-in-loop
    await Promise.all(due.map((settling) => answerTo("POST", "/check/settle", settling)));
  }
  await Promise.all(open.map((settling) => answerTo("POST", "/check/settle", settling)));
  const arrivals = burst + rounds;
  const { policies } = parseConfig({ KEY_SECRET: "s", POLICIES });
  for (const { name, limits } of policies) {
    // oxlint-disable-next-line no-await-in-loop
    const { header, timelines } = await storedSamples(name, arrivals);
    expect(header).toMatchObject({ arrivals, lost: 0, coverage: 1, sample: "1/1" });
    const options = { keepsDecisions: true, decidesEveryKey: true };
    const [result] = replayAll(timelines, [limits], options);
    const decided = Array.from(result?.allowed ?? [], (each) => (each ? "allowed" : "denied"));
    expect(decided).toEqual(Array.from(timelines.outcome, (each) => arrivalOutcomes[each]));
    const allowed = decided.filter((each) => each === "allowed").length;
    expect({ allowed, denied: arrivals - allowed }).toEqual(counted.get(name));
    expect(Math.min(allowed, arrivals - allowed)).toBeGreaterThan(0);
  }
});
