/** Limits that an isolate enforces by itself while an object gives no answer: better than none, though each isolate counts alone. */
import { createMeter, type Decision, type Meter } from "../strategies/index.ts";
import type { Spend } from "./outcome.ts";

/** Bounds the memory of an isolate; the meters longest unused are the first to go. */
const mostMeters = 4_096;

export class LocalMeters {
  readonly #meters = new Map<string, Meter>();

  consume(spend: Spend): Decision {
    return this.#meterOf(spend).consume(spend.cost, Date.now());
  }

  look(spend: Spend): Decision {
    return this.#meterOf(spend).look(spend.cost, Date.now());
  }

  forget(spend: Spend): void {
    this.#meters.delete(nameOf(spend));
  }

  #meterOf(spend: Spend): Meter {
    const name = nameOf(spend);
    const meter = this.#meters.get(name) ?? createMeter(spend.policy.limits);
    // Put in again at the end: a Map lists its keys in the order of insertion.
    this.#meters.delete(name);
    this.#meters.set(name, meter);
    const [oldest] = this.#meters.keys();
    if (this.#meters.size > mostMeters && oldest !== undefined) this.#meters.delete(oldest);
    return meter;
  }
}

const nameOf = ({ policy, partitionKey }: Spend): string => `${policy.name} ${partitionKey}`;
