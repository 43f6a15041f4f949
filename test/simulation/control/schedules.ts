/** The schedules of simulations: what happens at which time. */
import type { RulesVersion } from "../../../src/policy/runtime-rules.ts";
import { MemorySql } from "../../fakes/memory-sql.ts";
import { randomFrom } from "../../random.ts";
import type { Checks } from "./checks.ts";
import { pick } from "./configuration.ts";
import { Simulation } from "./simulation.ts";
import { isOlder } from "./stale-reference.ts";

const disturbedMs = 26_000;
/** Long enough for isolates to receive the rules and to deliver their counts. */
const calmMs = 9_000;
const dayMs = 86_400_000;

/**
 * The time after the control plane's return within which isolates have its rules, if each gets a request every second.
 */
const caughtUpMs = 10_000;

/** The longest time between two beats of an isolate with traffic, including the time in flight. */
const latestMs = 7_000;
/** The longest time between two attempts of a push. */
const longestRepetitionMs = 65_000;

interface Drawn {
  readonly crashesIsolates: boolean;
  readonly crashesObjects: boolean;
  readonly replacesStorage: boolean;
  readonly isLong: boolean;
}

/** A schedule with all faults at any moment. It checks all invariants, except those that compare two runs. */
export async function disturbed(seed: number): Promise<Checks> {
  const simulation = new Simulation(seed);
  const { random } = simulation;
  const drawn: Drawn = {
    crashesIsolates: random() < 0.5,
    crashesObjects: random() < 0.7,
    replacesStorage: random() < 0.3,
    isLong: random() < 0.05,
  };
  if (!drawn.crashesObjects) simulation.objects.calm();
  await begin(simulation);
  // Before the first rule is made, beats are rare.
  const hasRules = hasRulesIn(simulation);
  await disturb(simulation, drawn);
  if (drawn.isLong) await passDays(simulation);
  await end(simulation, { ...drawn, hasRules });
  return simulation.checks;
}

/** Whether any rule was ever made. */
const hasRulesIn = ({ plane }: Simulation): boolean => plane.isUp && plane.control.audit({ limit: 1 }).items.length > 0;

/** Makes a first rule, so that beats are frequent, and starts isolates. Without faults, the rule is certainly made. */
async function begin(simulation: Simulation, isCertain = false): Promise<void> {
  const { random, operator, world } = simulation;
  if (random() < 0.9) void operator.changePolicy().catch(() => undefined);
  await simulation.runFor(500);
  const isReady = (): boolean => !isCertain || hasRulesIn(simulation);
  while (!isReady()) {
    void operator.changePolicy();
    // oxlint-disable-next-line no-await-in-loop
    await simulation.runFor(500);
  }
  const isolates = 2 + Math.floor(random() * 3);
  for (let count = 0; count < isolates; count++) {
    simulation.startIsolate(world.nowMs + disturbedMs, 500 * isolates);
  }
}

async function disturb(simulation: Simulation, drawn: Drawn): Promise<void> {
  const { random, operator, world } = simulation;
  const endMs = world.nowMs + disturbedMs;
  const faults = faultsOf(simulation, drawn);
  while (world.nowMs < endMs) {
    // oxlint-disable-next-line no-await-in-loop
    await simulation.runFor(Math.floor(random() * 1_600));
    if (random() < 0.65) void operator.act();
    else pick(random, faults)();
    operator.read();
    simulation.checkBound();
  }
}

function faultsOf(simulation: Simulation, drawn: Drawn): readonly (() => void)[] {
  const { random, plane, world, isolates } = simulation;
  const later = (longestMs: number, act: () => void): void =>
    void world.at(world.nowMs + Math.floor(random() * longestMs), act);
  const bookmarks: { readonly storage: MemorySql; readonly epochMs: number }[] = [];
  const faults = [
    () => plane.isUp && plane.restart(),
    () => {
      if (!plane.isUp) return;
      plane.kill();
      later(9_000, () => plane.isUp || plane.revive());
    },
    () => {
      plane.hang();
      later(10_000, () => plane.endHang());
    },
    () => void forget(simulation),
  ];
  if (drawn.crashesObjects) faults.push(() => simulation.crashObject(random));
  if (drawn.crashesIsolates) {
    faults.push(() => {
      isolates[Math.floor(random() * isolates.length)]?.crash();
      simulation.startIsolate(world.nowMs + 8_000, 1_200);
    });
  }
  if (drawn.replacesStorage) faults.push(() => replaceStorage(simulation, bookmarks));
  return faults;
}

async function forget({ isolates, random }: Simulation): Promise<void> {
  if (random() < 0.7) return;
  const isolate = isolates[Math.floor(random() * isolates.length)];
  if (isolate?.isAlive === true) await isolate.forget("p", pick(random, ["a", "b"]));
}

/** Keeps a copy of the storage, or replaces the storage with an older copy or an empty one. */
function replaceStorage(
  simulation: Simulation,
  bookmarks: { readonly storage: MemorySql; readonly epochMs: number }[],
): void {
  const { plane, random } = simulation;
  if (!plane.isUp) return;
  const { epochMs } = plane.control.rulesMetrics();
  const drawn = random();
  if (drawn < 0.5 || bookmarks.length === 0) {
    bookmarks.push({ storage: plane.bookmark(), epochMs });
    return;
  }
  const bookmark = pick(random, bookmarks);
  plane.kill();
  const isEmpty = drawn > 0.85;
  plane.revive(isEmpty ? new MemorySql() : bookmark.storage.copy());
  simulation.wasEmptied ||= isEmpty;
  simulation.replaced(plane.control.rulesMetrics().epochMs);
}

/** Lets 40 days pass with sweeps and crashes. Afterwards, confirmed rules without an expiry must still be obeyed. */
async function passDays(simulation: Simulation): Promise<void> {
  const { random, world } = simulation;
  for (let days = 0; days < 40;) {
    const passing = 1 + Math.floor(random() * 20);
    days += passing;
    // oxlint-disable-next-line no-await-in-loop
    await simulation.runFor(passing * dayMs);
    if (random() < 0.5) simulation.crashObject(random);
    simulation.operator.read();
    for (const isolate of simulation.isolates) {
      simulation.sendFrom(isolate, world.nowMs + 4_000, 1_000);
    }
    // oxlint-disable-next-line no-await-in-loop
    await simulation.runFor(5_000);
  }
}

/** Ends all faults, and checks that the states of all parts converge. */
async function end(simulation: Simulation, drawn: Drawn & { readonly hasRules: boolean }): Promise<void> {
  const { plane, world, checks } = simulation;
  simulation.calm();
  if (!plane.isUp) plane.revive();
  plane.endHang();
  for (const isolate of simulation.all) {
    simulation.sendFrom(isolate, world.nowMs + caughtUpMs + calmMs, 400);
  }
  const states = ["p", "q"].map((policy) => ({ policy, ...plane.control.policyState(policy) }));
  await simulation.runFor(caughtUpMs + 1_000);
  for (const isolate of simulation.isolates.filter((each) => each.isAlive && each.control !== null)) {
    for (const { policy, epoch, version } of drawn.hasRules && !drawn.replacesStorage ? states : []) {
      const known = isolate.rulesOf(policy);
      checks.check(
        "fail static: after its return, isolates with traffic have its rules",
        version === 0 || (known !== null && !isOlder(known, { epoch, version })),
        () => `${policy}: ${known?.epoch}, ${known?.version} instead of ${epoch}, ${version}`,
      );
    }
  }
  await simulation.runFor(calmMs - latestMs);
  const versions = ["p", "q"].map((policy) => ({ policy, ...plane.control.policyState(policy) }));
  await simulation.runFor(latestMs);
  if (drawn.hasRules && !simulation.wasEmptied) checkVersions(simulation, versions);
  simulation.checkBound();
  await checkApplied(simulation);
  // After a day, the control plane does not count batches that it may have counted before, so its totals may be too
  // low.
  const hasLost = drawn.crashesIsolates || drawn.replacesStorage || drawn.isLong;
  if (drawn.hasRules && !hasLost) simulation.checkTotals();
  // After days, the units no longer count.
  if (!drawn.isLong) simulation.checkUsed();
}

/**
 * Checks that isolates have the rules of the control plane, even after an older copy of its storage was restored.
 * @param versions of the rules that the control plane had before the last beats
 */
function checkVersions(
  { isolates, checks }: Simulation,
  versions: readonly (RulesVersion & { readonly policy: string })[],
): void {
  for (const isolate of isolates.filter((each) => each.isAlive && each.control !== null)) {
    for (const { policy, epoch, version } of versions) {
      const known = isolate.rulesOf(policy);
      const isCurrent = known?.epoch === epoch && known.version >= version;
      checks.check(
        "isolates: in the end they have the rules of the control plane",
        version === 0 || isCurrent,
        () => `${policy}: ${known?.epoch}, ${known?.version} instead of ${epoch}, ${version}`,
      );
    }
  }
}

/** By now, each push has been repeated until its object has confirmed it. */
async function checkApplied(simulation: Simulation): Promise<void> {
  const { plane, checks } = simulation;
  const rules = () => plane.control.rules({ limit: 500 }).items;
  if (rules().some(({ state }) => state === "pending")) await simulation.runFor(longestRepetitionMs);
  for (const rule of rules()) {
    checks.check(
      "key rules: in the end each is applied",
      rule.state !== "pending",
      () => `${rule.id} of ${rule.policy} is ${rule.state}`,
    );
  }
}

/**
 * Runs the same seed twice: once the control plane works, and once it is killed or hangs. Both runs must make the same
 * decisions.
 */
export async function withAndWithout(seed: number): Promise<Checks> {
  const [withPlane, without] = [await failStatic(seed, false), await failStatic(seed, true)];
  const { checks } = without;
  for (const [index, isolate] of withPlane.isolates.entries()) {
    const others = without.isolates[index]?.answered ?? [];
    for (const [position, answer] of isolate.answered.entries()) {
      const other = others[position];
      checks.check(
        "fail static: a decision is the same without the control plane",
        JSON.stringify(answer) === JSON.stringify(other),
        () => `${JSON.stringify(other)} instead of ${JSON.stringify(answer)}`,
      );
    }
  }
  checks.add(withPlane.checks);
  checks.violations.push(...withPlane.checks.violations);
  return checks;
}

async function failStatic(seed: number, isKilled: boolean): Promise<Simulation> {
  const simulation = new Simulation(seed);
  const { random, operator, world, plane, wires } = simulation;
  operator.policyRulesExpire = false;
  plane.isFragile = false;
  for (const wire of [wires.beats, wires.pushes, wires.operator]) wire.isDisturbed = false;
  await begin(simulation, true);
  for (const isolate of simulation.isolates) {
    simulation.sendFrom(isolate, world.nowMs + 50_000, 1_500);
  }
  for (let count = 0; count < 6; count++) {
    void operator.act();
    // oxlint-disable-next-line no-await-in-loop
    await simulation.runFor(Math.floor(random() * 2_000));
  }
  // Every isolate has received the rules before the control plane fails.
  await simulation.runFor(20_000);
  const fault = randomFrom(seed)() < 0.5 ? () => plane.kill() : () => plane.hang();
  if (isKilled) fault();
  await simulation.runFor(20_000);
  return simulation;
}

export type Schedule = (seed: number) => Promise<Checks>;
