/**
 * One simulation of the control plane: isolates of two deployments, objects, the control plane and its operators, all
 * with their real code, on networks with faults. The seed determines everything.
 */
import { randomFrom, type Random } from "../../random.ts";
import { startMs, World } from "../world.ts";
import { Checks } from "./checks.ts";
import { type DeployedPolicy, drawDeployments, keyTexts, partitionKeyOf, pick } from "./configuration.ts";
import { addedUp, sumOf } from "./counted-statistics.ts";
import { Isolate, type IsolateParts, type SimulatedRequest } from "./isolate.ts";
import { type SimulatedObject, KeyObjects } from "./key-objects.ts";
import { ObjectChecks } from "./object-checks.ts";
import { Operator } from "./operator.ts";
import { SimulatedPlane } from "./plane.ts";
import { RuleLedger } from "./rule-ledger.ts";
import { SpendReference } from "./spend-reference.ts";
import { type Faults, Wire } from "./wire.ts";

const calm: Faults = { maximumDelayMs: 0, lost: 0, unanswered: 0, repeated: 0 };

const shares = [0, 0.05, 0.3] as const;

const drawFaults = (random: Random, longestMs: readonly number[], mayRepeat: boolean): Faults => ({
  maximumDelayMs: pick(random, longestMs),
  lost: pick(random, shares),
  unanswered: pick(random, shares),
  repeated: mayRepeat ? pick(random, [0, 0.2]) : 0,
});

/** A separate source of random numbers for each part, so that the draws of one part do not affect the others. */
const partOf = (seed: number, part: number): Random => randomFrom(Math.imul(seed, 0x9e3779b1) ^ part);

export class Simulation {
  readonly world = new World();
  readonly checks = new Checks();
  readonly random: Random;
  readonly traffic: Random;
  readonly deployments: readonly (readonly DeployedPolicy[])[];
  readonly objects: KeyObjects;
  readonly plane: SimulatedPlane;
  readonly ledger: RuleLedger;
  readonly operator: Operator;
  readonly spends: SpendReference;
  readonly isolates: Isolate[] = [];
  readonly wires: Readonly<Record<"objects" | "beats" | "pushes" | "operator", Wire>>;
  readonly #parts: IsolateParts;
  /** An isolate whose network has no delays or faults, and which sends requests at exact times. */
  readonly #prompt: Isolate;
  #requests = 0;
  /** Whether the control plane was recreated without its storage. */
  wasEmptied = false;

  constructor(seed: number) {
    const part = (number: number): Random => partOf(seed, number);
    const { world, checks } = this;
    this.random = part(1);
    this.traffic = part(2);
    const draw = part(3);
    this.deployments = drawDeployments(draw);
    const wire = (number: number, longestMs: readonly number[], mayRepeat: boolean): Wire =>
      new Wire(world, part(number), drawFaults(draw, longestMs, mayRepeat));
    this.wires = {
      objects: wire(4, [0, 40, 350], false),
      beats: wire(5, [0, 300, 7_000], true),
      pushes: wire(6, [0, 300, 4_000], true),
      operator: wire(7, [0, 200], false),
    };
    this.ledger = new RuleLedger(checks, () => world.nowMs);
    this.spends = new SpendReference(checks);
    const observer = new ObjectChecks(checks, this.ledger, this.spends);
    // The objects' clocks differ by milliseconds, as those of different machines do.
    const aheadMs = Array.from({ length: 4 }, () => Math.floor(draw() * 400) - 200);
    this.objects = new KeyObjects({ world, random: part(8), observer }, aheadMs);
    this.plane = new SimulatedPlane({
      world,
      random: part(9),
      objects: this.objects,
      wire: this.wires.pushes,
    });
    const { plane, ledger, objects, spends } = this;
    this.#parts = {
      world,
      checks,
      objects,
      plane,
      spends,
      objectWire: this.wires.objects,
      beatWire: this.wires.beats,
    };
    const promptWire = new Wire(world, part(10), calm);
    const promptParts = { ...this.#parts, objectWire: promptWire, beatWire: promptWire };
    const newest = this.deployments[0] ?? [];
    const settings = { deployment: newest, codeVersion: "2", isControlled: true, aheadMs: 0 };
    this.#prompt = new Isolate(promptParts, settings);
    this.operator = new Operator({
      world,
      random: part(11),
      plane,
      ledger,
      wire: this.wires.operator,
      deployment: newest,
      onExpiry: (key, policy, atMs) => this.#requestAround(key, policy, atMs),
      onPolicyExpiry: (policy, atMs) => {
        for (const each of [atMs - 1, atMs]) world.at(each, () => this.#sendToAllKeys(policy));
      },
    });
  }

  get all(): readonly Isolate[] {
    return [this.#prompt, ...this.isolates];
  }

  /** All isolates that send beats. */
  get controlled(): readonly Isolate[] {
    return this.all.filter(({ control }) => control !== null);
  }

  /** Starts an isolate that has traffic until a given time. */
  startIsolate(untilMs: number, everyMs: number): Isolate {
    const { traffic } = this;
    const age = traffic() < 0.25 ? 1 : 0;
    const isolate = new Isolate(this.#parts, {
      deployment: this.deployments[age] ?? [],
      codeVersion: age === 0 ? "2" : "1",
      isControlled: traffic() > 0.1,
      aheadMs: Math.floor(traffic() * 400) - 200,
    });
    this.isolates.push(isolate);
    this.sendFrom(isolate, untilMs, everyMs);
    return isolate;
  }

  /** Sends random requests to an isolate. */
  sendFrom(isolate: Isolate, untilMs: number, everyMs: number): void {
    const { world, traffic } = this;
    for (let atMs = world.nowMs; ;) {
      atMs += 1 + Math.floor(traffic() * 2 * everyMs);
      if (atMs >= untilMs) return;
      const request = this.#drawRequest();
      world.at(atMs, () => void isolate.request(request));
    }
  }

  #drawRequest(): SimulatedRequest {
    const { traffic } = this;
    const drawn = traffic();
    const isReserved = traffic() < 0.15;
    return {
      number: ++this.#requests,
      key: pick(traffic, keyTexts),
      policies: drawn < 0.5 ? ["p"] : drawn < 0.75 ? ["q"] : ["p", "q"],
      cost: 1 + Math.floor(traffic() * 3),
      settledCost: isReserved ? Math.floor(traffic() * 4) : null,
    };
  }

  /** Sends requests in the milliseconds around a time by the clock of the key's object. */
  #requestAround(partitionKey: string, policy: string, atMs: number): void {
    const { world } = this;
    for (const object of this.objects.all.values()) {
      const aheadMs = object.nowMs - world.nowMs;
      for (const offsetMs of [-1, 0]) {
        world.at(atMs - aheadMs + offsetMs, () => this.#sendPrompt(partitionKey, policy));
      }
    }
  }

  #sendToAllKeys(policy: string): void {
    for (const key of keyTexts) this.#sendPrompt(partitionKeyOf(key), policy);
  }

  #sendPrompt(partitionKey: string, policy: string): void {
    void this.#prompt.request({
      number: ++this.#requests,
      key: partitionKey.charAt(0),
      policies: [policy],
      cost: 1,
      settledCost: null,
    });
  }

  /** Ends all faults. */
  calm(): void {
    for (const wire of Object.values(this.wires)) wire.isDisturbed = false;
    this.objects.calm();
    this.plane.isFragile = false;
  }

  crashObject(random: Random): void {
    const all: readonly SimulatedObject[] = [...this.objects.all.values()];
    if (all.length > 0) pick(random, all).crash();
  }

  /** Replaces the storage of the control plane with an older copy, or with an empty one. */
  replaced(epochMs: number): void {
    this.ledger.begin(this.ledger.tracks.values());
    this.operator.waitsForEpoch = epochMs;
  }

  checkBound(): void {
    const recorded = addedUp(this.controlled.map(({ counted }) => counted.recorded));
    for (const [name, count] of this.plane.totals()) {
      this.checks.check(
        "statistics: the control plane has at most what isolates recorded",
        count <= (recorded.get(name) ?? 0),
        () => `${name}: ${count} of ${recorded.get(name) ?? 0}`,
      );
    }
  }

  /** Checks the totals of the control plane. Every isolate must be alive and must have sent a beat without faults. */
  checkTotals(): void {
    const arrived = addedUp(this.controlled.map(({ counted }) => counted.lastArrived));
    const totals = this.plane.totals();
    const names = new Set([...arrived.keys(), ...totals.keys()]);
    for (const name of names) {
      this.checks.check(
        "statistics: after the last beats, the control plane has exactly what isolates recorded",
        totals.get(name) === arrived.get(name),
        () => `${name}: ${totals.get(name)} of ${arrived.get(name)} (${sumOf(arrived)} in all)`,
      );
    }
  }

  /** Compares the units that each object has counted for each key with the object's replies. */
  checkUsed(): void {
    for (const object of this.objects.all.values()) {
      for (const text of keyTexts) {
        for (const { facts, policy } of this.deployments[0] ?? []) {
          const key = partitionKeyOf(text);
          const charge = { policy: facts.name, limits: policy.limits, cost: 0 };
          const [explained] = object.limiter.explain({ key, charges: [charge] }).charges;
          const used = explained?.accounts[0]?.used ?? 0;
          this.spends.checkUsed(object, key, facts.name, used);
        }
      }
    }
  }

  runFor(ms: number): Promise<void> {
    return this.world.runUntil(this.world.nowMs + ms);
  }

  get passedMs(): number {
    return this.world.nowMs - startMs;
  }
}
