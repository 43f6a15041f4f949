/**
 * The Worker's side of a decision: the only caller of the object. It bounds how long a decision may take, says what
 * holds when none comes, and asks the objects of different keys one after the other.
 */
import type { Policy } from "../config/index.ts";
import type { Decision } from "../strategies/index.ts";
import { errorText, report } from "../observability/events.ts";
import { LocalMeters } from "./local-meters.ts";
import { admits, type Outcome, type Spend } from "./outcome.ts";
import type { Charge, RateLimiter, Verdict } from "./rate-limiter.ts";

/**
 * The platform would try five times for up to ten seconds: longer than any request should wait for its limiter. 500 ms
 * is the shortest it takes; the deadline of a call is ours.
 */
const platformRetries = { maxRetries: 1, timeoutMs: 500 };

type Objects = DurableObjectNamespace<RateLimiter>;
type Stub = DurableObjectStub<RateLimiter>;
type Call<Answer> = (stub: Stub) => Promise<Answer>;

export class LimiterClient {
  readonly #objects: Objects;
  readonly #local = new LocalMeters();

  constructor(objects: Objects) {
    this.#objects = objects;
  }

  /**
   * Spends all or nothing. Spends on one key are decided together; the object of the next key is asked only when the
   * one before admits, and what was spent before a denial is given back, for which no answer waits.
   * @param later keeps the Worker running for work that goes on after the answer
   * @returns the outcomes of the spends that were asked for, those of the denying key last
   */
  async admit(
    spends: readonly Spend[],
    later: (work: Promise<unknown>) => void,
  ): Promise<Outcome[]> {
    const outcomes: Outcome[] = [];
    const undo: (() => Promise<unknown>)[] = [];
    const remember: (() => void)[] = [];
    for (const group of Map.groupBy(spends, (spend) => spend.partitionKey).values()) {
      // Each object is asked only once the one before has admitted.
      // oxlint-disable-next-line no-await-in-loop
      const verdict = await this.#ask("check", group, (stub) => stub.check(group.map(chargeOf)));
      const nowMs = Date.now();
      const decided = verdict === null ? this.#fallBack(group, nowMs) : outcomesOf(group, verdict);
      outcomes.push(...decided);
      if (!decided.every(admits)) {
        later(Promise.all(undo.map((each) => each())));
        return outcomes;
      }
      if (verdict === null) {
        undo.push(async () => this.#local.refund(group.filter(isLocal), nowMs));
      } else {
        undo.push(() => this.#giveBack(group, verdict.decidedAtMs));
        remember.push(() => this.#local.book(group, nowMs));
      }
    }
    for (const each of remember) each();
    return outcomes;
  }

  /** What `admit` would answer to one spend, without spending. */
  async look(spend: Spend): Promise<Outcome> {
    const verdict = await this.#ask("look", [spend], (stub) => stub.look([chargeOf(spend)]));
    const [outcome] = verdict === null ? [] : outcomesOf([spend], verdict);
    return outcome ?? fallBackOf(spend, () => this.#local.look(spend, Date.now()));
  }

  /**
   * Forgets what a policy has counted for a key.
   * @returns whether the object has confirmed it
   */
  async forget(policy: Policy, partitionKey: string): Promise<boolean> {
    const spend: Spend = { policy, partitionKey, cost: 0 };
    this.#local.forget(spend);
    const confirmed = await this.#ask("forget", [spend], async (stub) => {
      await stub.forget(policy.name);
      return true;
    });
    return confirmed === true;
  }

  #giveBack(group: readonly Spend[], spentAtMs: number): Promise<unknown> {
    return this.#ask("refund", group, async (stub) => stub.refund(group.map(chargeOf), spentAtMs));
  }

  /** An answer of the object of a key within the shortest of its policies' timeouts; null if there is none. */
  async #ask<Answer>(
    name: "check" | "look" | "refund" | "forget",
    group: readonly Spend[],
    call: Call<Answer>,
  ): Promise<Answer | null> {
    const partitionKey = group[0]?.partitionKey ?? "";
    const timeoutMs = Math.min(...group.map((spend) => spend.policy.timeoutMs));
    try {
      // A stub is cheap, and one that has thrown stays broken: each call has its own.
      const stub = this.#objects.getByName(partitionKey, { retry: platformRetries });
      return await withDeadline(call(stub), timeoutMs);
    } catch (error) {
      const policies = group.map((spend) => spend.policy.name);
      report({ event: "object-silent", call: name, policies, error: errorText(error) });
      return null;
    }
  }

  /** What the policies' failure modes say; local limits too are spent by all or by none. */
  #fallBack(group: readonly Spend[], nowMs: number): Outcome[] {
    const look = (spend: Spend): Outcome => fallBackOf(spend, () => this.#local.look(spend, nowMs));
    if (group.map(look).every(admits)) {
      return group.map((spend) => fallBackOf(spend, () => this.#local.consume(spend, nowMs)));
    }
    for (const spend of group.filter(isLocal)) this.#local.deny(spend, nowMs);
    return group.map(look);
  }
}

const isLocal = ({ policy }: Spend): boolean => policy.onError === "local";

function fallBackOf(spend: Spend, decide: () => Decision): Outcome {
  const { policy } = spend;
  return policy.onError === "local"
    ? { kind: "local", policy, decision: decide() }
    : { kind: policy.onError, policy };
}

const chargeOf = ({ policy, cost }: Spend): Charge => ({
  policy: policy.name,
  limits: policy.limits,
  cost,
});

function outcomesOf(group: readonly Spend[], verdict: Verdict): Outcome[] {
  return verdict.decisions.flatMap((decision, index) => {
    const policy = group[index]?.policy;
    return policy === undefined ? [] : [{ kind: "decided", policy, decision }];
  });
}

/** @throws Error when there is no answer by then; the call itself cannot be called back */
async function withDeadline<Answer>(answer: Promise<Answer>, timeoutMs: number): Promise<Answer> {
  const { promise: deadline, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
  try {
    return await Promise.race([answer, deadline]);
  } finally {
    clearTimeout(timer);
  }
}
