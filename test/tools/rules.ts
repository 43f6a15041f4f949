/**
 * `npm run bench -- rules`: measures the time that the control plane needs for its calls with many rules, on SQLite in
 * memory. Exits with 1 when a page, or a step of a rollback, takes 100 ms or more. Options: --rules <number>.
 */
import { ada, beat, keyRule, mode, TestPlane } from "../control/object/test-plane.ts";
import { positiveInteger, readOptions } from "./options.ts";
import { markdownTable, rough } from "./table.ts";

const values = readOptions("rules", {
  rules: { type: "string", value: "number", default: "10000", about: "Key rules." },
});
const rules = positiveInteger("rules", values.rules, 19_000);

const policies = 20;
const keyLength = 43;
const mostMsPerPage = 100;
const repetitions = 50;

const keyOf = (number: number): string => String(number).padStart(keyLength, "k");
const plane = new TestPlane();
const { control } = plane;
const note = "Repeated login attempts with invented names from one data centre";

for (let number = 0; number < rules; number++) {
  const input = keyRule({ key: keyOf(number), policy: `p${number % policies}`, note });
  // oxlint-disable-next-line no-await-in-loop
  await plane.created(input);
}
const { epoch, version } = await plane.created(mode("off"));
const known = beat({ epoch, versions: { p: version } });

const calls: readonly (readonly [string, () => unknown])[] = [
  ["page of 100 rules", () => control.rules({ limit: 100 })],
  ["page of one policy", () => control.rules({ limit: 100, policy: "p7" })],
  ["page of a kind without rules", () => control.rules({ limit: 100, kind: "limits" })],
  ["page of one key", () => control.rules({ limit: 100, key: keyOf(7) })],
  ["page of 100 audit entries", () => control.audit({ limit: 100 })],
  ["beat of an isolate that knows all rules", () => control.beat(known)],
];

/** The slowest of several runs, in milliseconds. */
function slowestMs(act: () => unknown): number {
  let slowest = 0;
  for (let count = 0; count < repetitions; count++) {
    const startedMs = performance.now();
    act();
    slowest = Math.max(slowest, performance.now() - startedMs);
  }
  return slowest;
}

const results = calls.map(([name, act]) => [name, slowestMs(act)] as const);
const startedMs = performance.now();
await plane.create(keyRule());
const createdMs = performance.now() - startedMs;
const rollbackStartedMs = performance.now();
void control.rollback({ toSeq: 0, actor: ada, note: null });
const firstTurnMs = performance.now() - rollbackStartedMs;
while (control.rollbackProgress()?.state === "running") {
  // oxlint-disable-next-line no-await-in-loop
  await plane.pass(1_000);
}
const rolledBackMs = performance.now() - rollbackStartedMs;

console.log(
  markdownTable(
    ["call", "slowest, ms"],
    [
      ...results.map(([name, ms]) => [name, rough(ms)]),
      ["new key rule", rough(createdMs)],
      ["first turn of a rollback", rough(firstTurnMs)],
      ["rollback of all rules", rough(rolledBackMs)],
    ],
  ),
);
const isSlow =
  firstTurnMs >= mostMsPerPage || results.some(([name, ms]) => name.startsWith("page") && ms >= mostMsPerPage);
process.exit(isSlow ? 1 : 0);
