/**
 * The control plane object. It crashes, hangs, is killed and comes back, sometimes with older storage or none. Its code
 * is real.
 */
import { Plane } from "../../../src/control/object/plane.ts";
import type { Push } from "../../../src/control/object/outbox.ts";
import type { ControlStorage } from "../../../src/control/object/storage.ts";
import { type SetRulesReply, objectId } from "../../../src/limiter/protocol.ts";
import { MemorySql } from "../../fakes/memory-sql.ts";
import type { Random } from "../../random.ts";
import type { World } from "../world.ts";
import type { KeyObjects } from "./key-objects.ts";
import type { Wire } from "./wire.ts";

interface PlaneParts {
  readonly world: World;
  readonly random: Random;
  readonly objects: KeyObjects;
  /** Carries pushes to the objects. */
  readonly wire: Wire;
}

/** The share of calls in which the object crashes before its writes are confirmed. */
const crashedCalls = 0.01;
/** The delay of an alarm that is due while another alarm runs. */
const alarmPauseMs = 1_000;

/** The promise for calls from or to an object that has crashed: it never settles. */
const never = new Promise<never>(() => undefined);

const noSockets = {
  sockets: () => [],
  accept: () => {
    throw new Error("no WebSocket is opened");
  },
};

export class SimulatedPlane {
  readonly #parts: PlaneParts;
  #storage = new MemorySql();
  control: Plane;
  #lives = 0;
  #isAlarmRunning = false;
  #ids = 0;
  /** The ids of key rules and policy rules, in the order of creation. */
  readonly createdIds: string[] = [];
  isUp = true;
  isFragile = true;
  /** Resolves when the object stops hanging; null while it answers. */
  #hang: PromiseWithResolvers<void> | null = null;

  constructor(parts: PlaneParts) {
    this.#parts = parts;
    this.control = this.#begin();
  }

  /** Makes a call. The object may crash before its writes are confirmed. */
  async call<Reply>(act: (control: Plane) => Reply | Promise<Reply>): Promise<Reply> {
    if (this.#hang !== null) await this.#hang.promise;
    if (!this.isUp) throw new Error("The object is not available.");
    const isLost = this.#parts.random() < crashedCalls && this.isFragile;
    const before = isLost ? this.#storage.copy() : null;
    const life = this.#lives;
    const answer = act(this.control);
    if (before !== null) {
      void Promise.resolve(answer).catch(() => undefined);
      this.restart(before);
      throw new Error("The object was reset.");
    }
    const reply = await answer;
    return life === this.#lives ? reply : never;
  }

  /** Stops the object without warning and restarts it from storage. Pushes in flight still arrive. */
  restart(storage = this.#storage): void {
    this.#lives++;
    this.#storage = storage;
    this.#isAlarmRunning = false;
    this.control = this.#begin();
    this.#scheduleAlarm();
  }

  kill(): void {
    this.isUp = false;
    this.#lives++;
  }

  revive(storage = this.#storage): void {
    this.isUp = true;
    this.restart(storage);
  }

  /** From now on, calls are answered only after `endHang`. */
  hang(): void {
    this.#hang ??= Promise.withResolvers<void>();
  }

  endHang(): void {
    this.#hang?.resolve();
    this.#hang = null;
  }

  /** A copy of the storage, which can be restored later. */
  bookmark(): MemorySql {
    return this.#storage.copy();
  }

  /** The decisions, by policy and outcome, since the object was created. */
  totals(): Map<string, number> {
    const nowMs = this.#parts.world.nowMs;
    const query = { fromMs: nowMs - 80 * 86_400_000, toMs: nowMs + 3_600_000, stepMs: 3_600_000 };
    const totals = new Map<string, number>();
    for (const { policy, outcomes } of this.control.statistics(query).points) {
      for (const [outcome, count] of Object.entries(outcomes)) {
        const name = `${policy} ${outcome}`;
        totals.set(name, (totals.get(name) ?? 0) + count);
      }
    }
    return totals;
  }

  #begin(): Plane {
    const { world, wire, objects } = this.#parts;
    const life = this.#lives;
    const isAlive = (): boolean => life === this.#lives;
    const clock = world.clock();
    const push: Push = async (location, key, policy, rules, version) => {
      // The platform sends a call only after earlier writes are confirmed.
      if (!isAlive()) return never;
      const args = [key, policy, rules, version];
      const sent = structuredClone(args);
      const reply = await wire.send(() => objects.get(objectId(location)).call("setRules", sent, null));
      return isAlive() ? (reply as SetRulesReply).version : never;
    };
    const storage = this.#storageOf(this.#storage, isAlive);
    const observers = {
      alerts: null,
      dataset: null,
      sockets: noSockets,
      waitUntil: () => undefined,
    };
    return new Plane({
      storage,
      clock: {
        now: clock.now,
        after: (afterMs, act) => clock.after(afterMs, () => isAlive() && act()),
      },
      push,
      randomId: () => {
        const id = `-${++this.#ids}`;
        this.createdIds.push(id);
        return id;
      },
      observers,
    });
  }

  #storageOf(memory: MemorySql, isAlive: () => boolean): ControlStorage {
    return {
      sql: memory.sql,
      transactionSync: (act) => memory.transactionSync(act),
      getAlarm: () => (isAlive() ? memory.getAlarm() : never),
      setAlarm: async (atMs) => {
        if (!isAlive()) return never;
        await memory.setAlarm(atMs);
        this.#scheduleAlarm();
        return undefined;
      },
    };
  }

  #scheduleAlarm(): void {
    const { world } = this.#parts;
    const storage = this.#storage;
    if (storage.alarmAtMs === null) return;
    world.at(storage.alarmAtMs, () => {
      const isDue = storage.alarmAtMs !== null && storage.alarmAtMs <= world.nowMs;
      if (!isDue || storage !== this.#storage || !this.isUp) return;
      if (this.#isAlarmRunning || this.#hang !== null) {
        world.at(world.nowMs + alarmPauseMs, () => this.#scheduleAlarm());
        return;
      }
      const life = this.#lives;
      this.#isAlarmRunning = true;
      storage.alarmAtMs = null;
      void this.control.alarm().finally(() => {
        if (life === this.#lives) this.#isAlarmRunning = false;
      });
    });
  }
}
