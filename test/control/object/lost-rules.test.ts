/**
 * Random changes while pushes are lost, delayed and repeated, and objects crash. No confirmed rule is lost and no older
 * rule replaces a newer one. In the end, each object has exactly the rules of the control plane.
 */
import { expect, it } from "vitest";
import { compareVersions, type RulesVersion } from "../../../src/policy/runtime-rules.ts";
import { isFull } from "../../mode.ts";
import { type Random, randomFrom } from "../../random.ts";
import { ada, beat, keyRule, TestPlane } from "./test-plane.ts";

const actor = ada;
const keys = ["a", "b", "c"].map((each) => each.repeat(43));

class Chaos {
  readonly plane = new TestPlane();
  readonly #random: Random;
  /** The versions that each object has had, in order. */
  readonly versions = new Map<string, RulesVersion[]>();
  /** Each rule that was answered as applied and has not changed since. */
  readonly #applied = new Set<string>();

  constructor(seed: number) {
    this.#random = randomFrom(seed);
    this.plane.beforePush = () => this.#trouble();
    this.plane.afterPush = () => {
      for (const [name, { version }] of this.plane.objects) {
        this.versions.set(name, [...(this.versions.get(name) ?? []), version]);
      }
      return this.#trouble();
    };
  }

  /** Loses a message, delays it by up to 20 s, or delivers it at once. */
  async #trouble(): Promise<void> {
    const drawn = this.#random();
    if (drawn < 0.2) throw new Error("Network connection lost.");
    const { promise, resolve } = Promise.withResolvers<void>();
    if (drawn < 0.5) {
      this.plane.clock.after(Math.floor(this.#random() * 20_000), resolve);
      await promise;
    }
  }

  #pick<Item>(items: readonly Item[]): Item | undefined {
    return items[Math.floor(this.#random() * items.length)];
  }

  async step(): Promise<void> {
    const { plane } = this;
    const drawn = this.#random();
    const rule = this.#pick(plane.control.rules({ limit: 100 }).items);
    const key = this.#pick(keys) ?? "";
    const change = { id: rule?.id ?? "", revision: rule?.revision ?? 0, actor };
    if (drawn < 0.35) void this.#note(plane.create(keyRule({ key })));
    else if (drawn < 0.5) {
      this.#applied.delete(change.id);
      const input = keyRule({ key: rule?.key ?? key, rule: { kind: "allow" } });
      void this.#note(plane.control.replaceRule({ ...change, input }));
    } else if (drawn < 0.65) {
      this.#applied.delete(change.id);
      void plane.control.deleteRule({ ...change, note: null });
    } else if (drawn < 0.75) {
      const seq = plane.control.audit({ limit: 1 }).items[0]?.seq ?? 0;
      this.#applied.clear();
      const toSeq = Math.floor(this.#random() * (seq + 1));
      void plane.control.rollback({ toSeq, actor, note: null });
    } else if (drawn < 0.85) plane.restart();
    else plane.control.beat(beat({ deployment: this.#random() < 0.9 ? "d" : "e" }));
    await plane.pass(Math.floor(this.#random() * 4_000));
    for (const id of this.#applied) expect(plane.control.rule(id)).not.toBeNull();
  }

  /** Remembers a rule that is answered as applied, unless it has changed since. */
  async #note(answer: ReturnType<TestPlane["create"]>): Promise<void> {
    const changed = await answer;
    if (changed.kind !== "done" || changed.value.state !== "applied") return;
    const { id, revision, key } = changed.value;
    if (this.plane.control.rule(id)?.revision !== revision) return;
    this.#applied.add(id);
    expect(this.plane.heldIds("p", undefined, key ?? "")).toContain(id);
  }
}

const seeds = Array.from({ length: isFull ? 25 : 6 }, (_, seed) => seed + 1);

it.each(seeds)(
  "no rule is lost and no older rules win, whatever happens to pushes and the object: seed %i",
  async (seed) => {
    const chaos = new Chaos(seed);
    const { plane } = chaos;
    for (let count = 0; count < 40; count++) {
      // oxlint-disable-next-line no-await-in-loop
      await chaos.step();
    }
    plane.beforePush = () => Promise.resolve();
    plane.afterPush = () => Promise.resolve();
    await plane.pass(200_000);
    for (const versions of chaos.versions.values()) {
      expect(versions).toEqual(versions.toSorted(compareVersions));
    }
    const { items } = plane.control.rules({ limit: 500 });
    expect(items.filter(({ state }) => state !== "applied")).toEqual([]);
    for (const key of keys) {
      const expected = items.filter((rule) => rule.key === key).map(({ id }) => id);
      expect(plane.heldIds("p", undefined, key) ?? []).toEqual(expected);
    }
  },
);
