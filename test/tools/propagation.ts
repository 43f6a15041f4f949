/**
 * `npm run bench -- propagation`: measures how soon changed rules take effect. Five isolates with traffic run in one
 * workerd process and call the same objects. Exits with 1 when a target is missed. Options: --keys <changes of key
 * rules>, --policies <changes of policy rules>, which applies to unwatched and to watched isolates.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { randomFrom } from "../random.ts";
import { type Isolates, startIsolates } from "./control-plane/isolates.ts";
import { changeKeys, delaysOfKeyRules, keyPolicies } from "./control-plane/key-changes.ts";
import { changedPolicies, changePolicies, openTail, policyNames, Traffic } from "./control-plane/policy-changes.ts";
import { positiveInteger, readOptions } from "./options.ts";
import { medianOf } from "./overhead/table.ts";
import { markdownTable, type Row, whole } from "./table.ts";

const values = readOptions("propagation", {
  keys: { type: "string", value: "number", default: "1000", about: "Changes of key rules." },
  policies: {
    type: "string",
    value: "number",
    default: "36",
    about: "Changes of policy rules, each for unwatched and watched isolates.",
  },
});
const keyChanges = positiveInteger("keys", values.keys, 100_000);
const policyChanges = positiveInteger("policies", values.policies, 1_000);

const isolateNames = ["one", "two", "three", "four", "five"];
/** A sixth isolate, without traffic, makes the changes, because an isolate applies its own changes at once. */
const operatorName = "operator";
/** Rules reach leased and cached decisions within a second, and eventual decisions within `syncEvery`. */
const keysOfEachConsistency = Math.ceil(keyChanges / 50);

/** The time between two beats of an isolate that has learned of rules and is not watched. */
const beatMs = 5_000;

const random = randomFrom(18);
const rows: Row[] = [];
let missed = 0;

const folder = mkdtempSync(join(tmpdir(), "headgate-propagation-"));
try {
  const isolates = await startIsolates(folder, {
    policies: [...keyPolicies, ...changedPolicies],
    names: [...isolateNames, operatorName],
  });
  try {
    await measure(isolates);
  } finally {
    await isolates.close();
  }
} finally {
  rmSync(folder, { recursive: true });
}
console.log(markdownTable(["change", "changes", "median", "maximum", "targets", "result"], rows));
if (missed > 0) process.exitCode = 1;

async function measure(isolates: Isolates): Promise<void> {
  const urls = isolateNames.map((name) => isolates.url(name));
  await measurePolicies(urls, isolates.url(operatorName));
  const { changes, late, decisions, pending } = await changeKeys(urls, keyChanges, random);
  const isMet = late === 0 && pending === 0;
  if (!isMet) missed++;
  rows.push([
    "key rule, at the next strict decision",
    whole(changes),
    "–",
    "–",
    "0 late",
    `${late} of ${whole(decisions)} decisions late, ${pending} changes unconfirmed: ${verdict(isMet)}`,
  ]);
  for (const { name, mostMs } of [
    { name: "remembered-denials", mostMs: 1_100 },
    { name: "leased", mostMs: 1_100 },
    { name: "eventual", mostMs: 1_100 },
  ]) {
    // oxlint-disable-next-line no-await-in-loop
    const delays = await delaysOfKeyRules(urls, name, keysOfEachConsistency);
    add(`key rule, ${name.replace("-", " ")}`, delays, Number.POSITIVE_INFINITY, mostMs);
  }
}

async function measurePolicies(urls: readonly URL[], operator: URL): Promise<void> {
  const traffic = new Traffic(urls, beatMs);
  // By then, every isolate has learned that no rules exist.
  await setTimeout(beatMs);
  let limit = 100;
  const [first = ""] = policyNames;
  const changeAll = async (names: readonly string[], withinMs: number): Promise<number[]> =>
    changePolicies(traffic, operator, { names, limit: ++limit, withinMs, random });
  const several = async (withinMs: number): Promise<number[]> => {
    const delays: number[] = [];
    while (delays.length < policyChanges) {
      const names = policyNames.slice(0, policyChanges - delays.length);
      // oxlint-disable-next-line no-await-in-loop
      delays.push(...(await changeAll(names, withinMs)));
    }
    return delays;
  };
  add("first policy rule ever made", await changeAll([first], 0), 31_500, 31_500);
  add("policy rule", await several(beatMs), 5_500, 6_500);
  const tail = await openTail(operator);
  // Isolates learn with their next beat that they are watched.
  await setTimeout(beatMs + 500);
  add("policy rule, while watched", await several(1_000), 1_100, 2_000);
  tail.close();
  await traffic.end();
}

function add(change: string, delays: readonly number[], medianMs: number, mostMs: number): void {
  const median = medianOf(delays);
  const most = Math.max(...delays);
  const isMet = median < medianMs && most < mostMs;
  if (!isMet) missed++;
  const ofMedian = Number.isFinite(medianMs) ? `median < ${seconds(medianMs)}, ` : "";
  rows.push([
    change,
    whole(delays.length),
    seconds(median),
    seconds(most),
    `${ofMedian}maximum < ${seconds(mostMs)}`,
    verdict(isMet),
  ]);
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(2)} s`;
}
function verdict(isMet: boolean): string {
  return isMet ? "met" : "missed";
}
