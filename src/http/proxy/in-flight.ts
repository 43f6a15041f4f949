/**
 * A request that has been admitted, until all is over that it was admitted for: it waits for its turn in a queue, and what
 * it has reserved or holds is settled when its response tells the cost, has been taken, or never will be.
 */
import type { Policy } from "../../config/index.ts";
import type { Admission, CostOf } from "../../limiter/client/admission.ts";
import type { WaitUntil } from "../../limiter/client/object-caller.ts";
import type { Spend } from "../../limiter/client/outcome.ts";
import { costOfResponse } from "../../policies/cost.ts";
import { holdsSlots } from "../../strategies/index.ts";
import { bodyUntil } from "./body.ts";
import { proxyErrorOf } from "../wire/problems.ts";
import type { Forward } from "./forward.ts";
import { socketUntil } from "./websocket.ts";

/** A Worker that is gone settles nothing: so long what it has reserved stays open. Renewed while the request goes on. */
const reservedForMs = 60_000;
const leastRenewalMs = 100;

/** For how long a policy's spend is to be settled; null when what is spent is spent. */
export const openForMs = ({ count, cost, limits }: Policy): number | null =>
  count !== null || cost.kind === "response" || limits.some(holdsSlots) ? reservedForMs : null;

/** Where nothing more is told, what was spent stands. */
const asSpent: CostOf = ({ cost }) => cost;

/** The answer to a client that has gone away. */
const unread = (): Response => new Response(null, { status: 499 });

export class InFlight {
  readonly #admission: Admission;
  readonly #delayMs: number;
  /** What is to be settled. */
  readonly #open: readonly Policy[];
  readonly #left = new AbortController();
  readonly #over = Promise.withResolvers<void>();
  /** What each is to have cost, as far as it is known. */
  #costOf = asSpent;
  #stopRenewing = (): void => undefined;
  #isForwarded = false;
  #isOver = false;

  constructor(spends: readonly Spend[], admission: Admission) {
    this.#admission = admission;
    this.#open = spends.flatMap(({ policy, ttlMs }) => (ttlMs === undefined ? [] : policy));
    const delays = admission.outcomes.map((outcome) =>
      "decision" in outcome && !outcome.policy.isDryRun ? outcome.decision.delayMs : 0,
    );
    this.#delayMs = Math.max(0, ...delays);
  }

  /** What comes of the request when its turn has come. */
  async answer(request: Request, forward: Forward, waitUntil: WaitUntil): Promise<Response> {
    if (this.#delayMs === 0 && this.#open.length === 0) {
      return request.signal.aborted ? unread() : forward(request);
    }
    // What is held outlives a client that goes away, for as long as it takes to give it back.
    waitUntil(this.#over.promise);
    this.#follow(request.signal);
    this.#keepOpen();
    try {
      await this.#turn();
      if (this.#left.signal.aborted) return unread();
      this.#isForwarded = true;
      if (this.#open.length === 0) this.#end(async () => undefined);
      return this.#settledBy(await forward(request, this.#left.signal));
    } catch (error) {
      this.#end(() => this.#admission.settle(asSpent));
      throw error;
    }
  }

  /**
   * A client that goes away before its turn gives back its place; after it, its slots, and what its response has not cost
   * if that has begun.
   */
  #follow(signal: AbortSignal): void {
    const leave = (): void => {
      this.#left.abort();
      this.#end(() =>
        this.#isForwarded ? this.#admission.settle(this.#costOf) : this.#admission.giveBack(),
      );
    };
    if (signal.aborted) leave();
    else signal.addEventListener("abort", leave, { once: true });
  }

  #keepOpen(): void {
    if (this.#open.length === 0) return;
    const leases = this.#open.flatMap(({ limits }) =>
      limits.filter(holdsSlots).map(({ windowMs }) => windowMs),
    );
    const renewalMs = Math.max(leastRenewalMs, Math.floor(Math.min(reservedForMs, ...leases) / 2));
    const renewal = setInterval(() => void this.#admission.renew(), renewalMs);
    this.#stopRenewing = () => clearInterval(renewal);
  }

  async #turn(): Promise<void> {
    if (this.#delayMs === 0) return;
    try {
      await scheduler.wait(this.#delayMs, { signal: this.#left.signal });
    } catch (error) {
      if (!this.#left.signal.aborted) throw error;
    }
  }

  /** Costs are known when the response begins; slots are held until it ends. */
  #settledBy(response: Response): Response {
    this.#costOf = ({ policy, cost }) => costOfResponse(policy, cost, response);
    const settle = (): void => this.#end(() => this.#admission.settle(this.#costOf));
    // A problem of our own is no work of the origin's.
    const isOrigins = proxyErrorOf(response) === null;
    const isHeld = isOrigins && this.#open.some(({ limits }) => limits.some(holdsSlots));
    if (isHeld && response.webSocket !== null) return socketUntil(response, settle);
    if (isHeld && response.body !== null) {
      return bodyUntil(response, response.body, this.#left.signal, settle);
    }
    settle();
    return response;
  }

  #end(act: () => Promise<void>): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#stopRenewing();
    act().then(this.#over.resolve, this.#over.reject);
  }
}
