/** Faults of the objects of a test. */
import { ConfigProblems } from "../../strategies/index.ts";
import type { Deliver } from "./memory-objects.ts";

/**
 * `"error"`: every call of an object fails at once. `"silent"`: no call gets an answer, so that its deadline (the `timeout`
 * of the policy) passes when the clock advances.
 */
export type ObjectFault = "error" | "silent";

const faults: readonly ObjectFault[] = ["error", "silent"];

export class Faults {
  #fault: ObjectFault | null = null;
  readonly #recovered = new Set<() => void>();

  /** Calls that got no answer fail when the objects recover, as calls do whose connection is lost. */
  readonly deliver: Deliver = async (_call, reply) => {
    if (this.#fault === "silent") {
      await new Promise<void>((resolve) => void this.#recovered.add(resolve));
      throw unavailable();
    }
    if (this.#fault === "error") throw unavailable();
    return reply();
  };

  begin(fault: ObjectFault): void {
    if (!faults.includes(fault)) {
      const accepted = faults.map((each) => `"${each}"`).join(" or ");
      throw new ConfigProblems([{ variable: "fail", field: "", value: fault, accepted }]);
    }
    this.#fault = fault;
  }

  end(): void {
    this.#fault = null;
    for (const recovered of this.#recovered) recovered();
    this.#recovered.clear();
  }
}

const unavailable = (): Error =>
  new Error("the test has made the objects fail, and lets them work again with recover()");
