/** A batch: checks that are independent of one another, in one call for each object. */
import { Admission } from "./admission.ts";
import type { EventualDecider } from "./decide-eventual.ts";
import type { Isolate, StrictDecider } from "./decide-strict.ts";
import { askObject, callOf, isEventual, outcomesOf, spentOf } from "./key-group.ts";
import type { WaitUntil } from "./object-caller.ts";
import { allows, type Outcome, type Spend } from "./outcome.ts";
import { objectId, objectLocation } from "./object-location.ts";
import type { CheckReply } from "../protocol.ts";

export class BatchDecider {
  readonly #isolate: Isolate;
  readonly #strict: StrictDecider;
  readonly #eventual: EventualDecider;

  constructor(isolate: Isolate, strict: StrictDecider, eventual: EventualDecider) {
    this.#isolate = isolate;
    this.#strict = strict;
    this.#eventual = eventual;
  }

  /**
   * Checks of one object go in one call, in their order. A cost of 0 looks.
   * @returns an outcome for each spend, in their order
   */
  async decide(spends: readonly Spend[], waitUntil: WaitUntil): Promise<Outcome[]> {
    const outcomes = new Map<Spend, Outcome>();
    const local = spends.filter((spend) => spend.cost > 0 && isEventual([spend]));
    for (const spend of local) {
      const turn = { admission: new Admission(), waitUntil, provisionalMs: 0 };
      for (const outcome of this.#eventual.decide([spend], turn)) outcomes.set(spend, outcome);
    }
    const others = spends.filter((spend) => !outcomes.has(spend));
    const byObject = Map.groupBy(others, ({ policy: { objects }, partitionKey }) =>
      objectId(objectLocation(objects, partitionKey)),
    );
    const asked = [...byObject.values()].map((group) => this.#askOne(group, outcomes, waitUntil));
    await Promise.all(asked);
    return spends.flatMap((spend) => outcomes.get(spend) ?? []);
  }

  /** @param outcomes takes an outcome for each spend */
  async #askOne(
    spends: readonly Spend[],
    outcomes: Map<Spend, Outcome>,
    waitUntil: WaitUntil,
  ): Promise<void> {
    const { clock, calls, denials, local } = this.#isolate;
    const askedAtMs = clock.now();
    const group = spends.filter((spend) => {
      const remembered = spend.cost === 0 ? null : denials.recall([spend], askedAtMs);
      for (const outcome of remembered ?? []) outcomes.set(spend, outcome);
      return remembered === null;
    });
    const charges = group.map((spend) => callOf([spend]));
    const replies = await askObject(
      calls,
      "check",
      group,
      (stub) => stub.batch({ calls: charges }),
      { waitUntil, settle: (answered) => this.#giveBackClosed(group, answered) },
    );
    for (const [index, spend] of group.entries()) {
      const reply = replies?.[index];
      if (reply === undefined) {
        for (const outcome of local.fallBack([spend]).outcomes) outcomes.set(spend, outcome);
        continue;
      }
      denials.remember([spend], reply, askedAtMs, clock.now());
      for (const outcome of outcomesOf([spend], reply)) {
        outcomes.set(spend, outcome);
        if (!allows(outcome)) continue;
        local.book([spend], clock.now());
        denials.forget(spend.partitionKey);
      }
    }
  }

  /** The answer came too late: the caller was refused where a policy is closed, so nothing of that stays spent. */
  async #giveBackClosed(group: readonly Spend[], replies: readonly CheckReply[]): Promise<void> {
    const spent = group.flatMap((spend, index) => {
      const reply = replies[index];
      const isClosed = spend.policy.onError === "closed" && spend.cost > 0;
      return reply === undefined || !isClosed ? [] : spentOf([spend], reply);
    });
    const byKey = Map.groupBy(spent, ({ spend }) => spend.partitionKey);
    await Promise.all([...byKey.values()].map((each) => this.#strict.refund(each)));
  }
}
