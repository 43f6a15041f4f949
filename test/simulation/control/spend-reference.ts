/** A naive reference for the charges of objects: units by object, key and policy, and the charges of each request. */
import type { RefundCall, SettleCall } from "../../../src/limiter/protocol.ts";
import type { Checks } from "./checks.ts";
import { decidedCalls, spentCharges } from "./decided-calls.ts";
import type { Completed, SimulatedObject } from "./key-objects.ts";

interface Reserved {
  /** The name of the entry in `units`. */
  readonly name: string;
  readonly policy: string;
  readonly cost: number;
}

export class SpendReference {
  readonly #checks: Checks;
  /** Units by object, policy and key. */
  readonly units = new Map<string, number>();
  readonly #reservations = new Map<string, readonly Reserved[]>();
  /** Charges minus refunds, by request and policy. */
  readonly #charges = new Map<string, number>();
  /** Objects that have lost writes or forgotten units. Their counts are only bounded. */
  readonly unsure = new Set<string>();

  constructor(checks: Checks) {
    this.#checks = checks;
  }

  completed(object: SimulatedObject, call: Completed): void {
    for (const decided of decidedCalls(call)) {
      const spent = spentCharges(decided);
      for (const { charge } of spent) {
        this.#add(nameOf(object, decided.key, charge.policy), charge.cost);
        if (call.request !== null) this.#charge(call.request, charge.policy, 1);
      }
      if (decided.reservation !== null) {
        const reserved = spent.map(({ charge: { policy, cost } }) => ({
          name: nameOf(object, decided.key, policy),
          policy,
          cost,
        }));
        this.#reservations.set(decided.reservation, reserved);
      }
    }
    if (call.name === "refund") this.#refunded(object, call);
    if (call.name === "settle") this.#settled(call);
    // Slices and syncs are tested in other simulations.
    if (["forget", "sync", "lease", "giveBackSlices"].includes(call.name)) this.unsure.add(object.id);
  }

  /** Records that an isolate sends a call. A refund counts as soon as it is sent, since the call may get lost. */
  sent(name: string, call: unknown, request: number | null): void {
    if (request === null) return;
    if (name === "refund") {
      for (const { policy } of (call as RefundCall).charges) this.#charge(request, policy, -1);
    }
    const { id, cost, costs } = call as SettleCall;
    if (name !== "settle" || cost !== 0 || costs !== undefined) return;
    for (const { policy } of this.#reservations.get(id) ?? []) this.#charge(request, policy, -1);
  }

  /** @param used the units that count according to the object */
  checkUsed(object: SimulatedObject, key: string, policy: string, used: number): void {
    const expected = this.units.get(nameOf(object, key, policy)) ?? 0;
    if (this.unsure.has(object.id)) return;
    this.#checks.check(
      "spends: an object has counted exactly what its replies charged",
      used === expected,
      () => `${object.id} ${policy} ${key}: ${used} units, expected ${expected}`,
    );
  }

  /** The charges minus the refunds of a request. */
  chargesOf(request: number, policy: string): number {
    return this.#charges.get(`${request} ${policy}`) ?? 0;
  }

  #charge(request: number, policy: string, by: number): void {
    const name = `${request} ${policy}`;
    const charges = (this.#charges.get(name) ?? 0) + by;
    this.#charges.set(name, charges);
    this.#checks.check(
      "spends: a request is charged at most once",
      charges <= 1,
      () => `request ${request} is charged ${charges} times by ${policy}`,
    );
  }

  #add(name: string, units: number): void {
    this.units.set(name, (this.units.get(name) ?? 0) + units);
  }

  #refunded(object: SimulatedObject, { args }: Completed): void {
    const [{ key, charges }] = args as [RefundCall];
    for (const { policy, cost, spentAtMs } of charges) {
      if (spentAtMs > 0) this.#add(nameOf(object, key, policy), -cost);
    }
  }

  #settled({ args, reply }: Completed): void {
    const [{ id, cost, costs }] = args as [SettleCall];
    if (!(reply as { settled: boolean }).settled) return;
    for (const [index, { name, cost: reserved }] of (this.#reservations.get(id) ?? []).entries()) {
      this.#add(name, (costs?.[index] ?? cost) - reserved);
    }
  }
}

const nameOf = ({ id }: SimulatedObject, key: string, policy: string): string => `${id} ${policy} ${key}`;
