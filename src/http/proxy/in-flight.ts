/** An admitted request: it waits for its turn in a queue, is forwarded, and its reservations are settled. */
import type { Policy } from "../../policy/policy.ts";
import { costOfResponse } from "../../policy/cost.ts";
import type { WaitUntil } from "../../limiter/isolate/object-caller.ts";
import type { Spend, ChargeResult, CostOf } from "../../limiter/isolate/outcome.ts";
import { every, sleep } from "../../limiter/clock.ts";
import { holdsSlots } from "../../strategies/index.ts";
import type { Runtime } from "../runtime.ts";
import { proxyErrorOf } from "../wire/problems.ts";
import { withBodyEnd, withSocketEnd } from "./response-end.ts";
import type { Forward } from "./forward.ts";

/** A reservation is renewed while its request runs. If the Worker dies, the reservation expires after this time. */
export const reservationMs = 60_000;
const leastRenewalMs = 100;

/** How long a handler may still state a cost after its response has ended, such as in its last step. */
const statementMs = 1_000;

const chargedCost: CostOf = ({ cost }) => cost;

export const clientGoneResponse = (): Response => new Response(null, { status: 499 });

export interface Forwarding {
  readonly runtime: Pick<Runtime, "clock">;
  readonly forward: Forward;
  readonly waitUntil: WaitUntil;
  /** Costs that the handler of the request may state. Default: none. */
  readonly statedCosts?: StatedCosts | undefined;
  /** Reports the end of a body. The default works only for bodies from the network. */
  readonly observeBody?: typeof withBodyEnd | undefined;
}

/** A request that waits, or whose spends are reserved. */
export class InFlight {
  readonly #admission: ChargeResult;
  readonly #delayMs: number;
  readonly #forwarding: Forwarding;
  /** The reserved policies, with the limits in effect for the key, which may come from a key rule. */
  readonly #reserved: readonly Policy[];
  readonly #clientGone = new AbortController();
  readonly #ended = Promise.withResolvers<void>();
  /** The final cost of a spend, as far as the response has stated it. */
  #costOf = chargedCost;
  #stopRenewing = (): void => undefined;
  #isForwarded = false;
  #hasResponse = false;
  #hasEnded = false;

  constructor(spends: readonly Spend[], admission: ChargeResult, delayMs: number, forwarding: Forwarding) {
    this.#admission = admission;
    this.#delayMs = delayMs;
    this.#forwarding = forwarding;
    const inEffect = new Map(admission.outcomes.map(({ policy }) => [policy.name, policy]));
    this.#reserved = spends.flatMap(({ policy, ttlMs }) =>
      ttlMs === undefined ? [] : (inEffect.get(policy.name) ?? policy),
    );
  }

  async answer(request: Request): Promise<Response> {
    const { runtime, forward, waitUntil, statedCosts } = this.#forwarding;
    const reserved = this.#reserved.map(({ name }) => name);
    statedCosts?.open(reserved, () => this.#settleStated());
    // Keeps the Worker running until everything is settled, even if the client goes away.
    waitUntil(this.#ended.promise);
    this.#watchClient(request.signal);
    this.#renewReservations();
    try {
      if (this.#delayMs > 0) await sleep(runtime.clock, this.#delayMs, this.#clientGone.signal);
      if (this.#clientGone.signal.aborted) return clientGoneResponse();
      this.#isForwarded = true;
      if (this.#reserved.length === 0) this.#end();
      return this.#settleWith(await forward(request, this.#clientGone.signal), request.method);
    } catch (error) {
      this.#end();
      throw error;
    }
  }

  /**
   * If the client goes away before the request is forwarded, everything is refunded. If it goes away later, the slots
   * are released, and the costs are settled as far as the response has stated them.
   */
  #watchClient(signal: AbortSignal): void {
    const leave = (): void => {
      this.#clientGone.abort();
      if (this.#isForwarded) this.#endSoon();
      else this.#end(() => this.#admission.giveBack());
    };
    if (signal.aborted) leave();
    else signal.addEventListener("abort", leave, { once: true });
  }

  #renewReservations(): void {
    if (this.#reserved.length === 0) return;
    const slotLeases = this.#reserved.flatMap(({ limits }) =>
      limits.filter(holdsSlots).map(({ windowMs }) => windowMs),
    );
    const renewalMs = Math.max(leastRenewalMs, Math.floor(Math.min(reservationMs, ...slotLeases) / 2));
    this.#stopRenewing = every(this.#forwarding.runtime.clock, renewalMs, () => void this.#admission.renew());
  }

  /**
   * Settles when the response begins, which states its cost. A response that holds slots, or whose handler may still state
   * a cost, is settled when it ends.
   */
  #settleWith(response: Response, method: string): Response {
    const { observeBody = withBodyEnd, statedCosts } = this.#forwarding;
    this.#hasResponse = true;
    this.#costOf = ({ policy, cost }) => costOfResponse(policy, cost, response);
    const end = (): void => this.#endSoon();
    // A problem response of Headgate itself occupies no slot of the origin.
    const isFromOrigin = proxyErrorOf(response) === null;
    const isOpen = this.#hasSlots || statedCosts?.hasOpen === true;
    if (isFromOrigin && isOpen && response.webSocket) return withSocketEnd(response, end);
    // The body of a response to HEAD is never read, so its end would not be observed.
    if (isFromOrigin && isOpen && response.body !== null && method !== "HEAD") {
      return observeBody(response, response.body, this.#clientGone.signal, end);
    }
    end();
    return response;
  }

  get #hasSlots(): boolean {
    return this.#reserved.some(({ limits }) => limits.some(holdsSlots));
  }

  /**
   * Settles when the handler has stated its last cost, unless slots are occupied or a cost still depends on the
   * response.
   */
  async #settleStated(): Promise<void> {
    const { statedCosts } = this.#forwarding;
    const isOfHandler = this.#reserved.every(({ name }) => statedCosts?.mayState(name) === true);
    const isKnown = this.#hasResponse || isOfHandler;
    if (statedCosts?.hasOpen !== true && isKnown && !this.#hasSlots) this.#end();
    // Does not wait for the end of the response: the handler that produces it may be waiting for this statement.
    if (this.#hasEnded) await this.#ended.promise;
  }

  /** Ends now, or a while later if the handler may still state a cost. */
  #endSoon(): void {
    const { runtime, statedCosts } = this.#forwarding;
    if (statedCosts?.hasOpen === true) runtime.clock.after(statementMs, () => this.#end());
    else this.#end();
  }

  #end(finish = (): Promise<void> => this.#settle()): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#stopRenewing();
    this.#forwarding.statedCosts?.close();
    finish().then(this.#ended.resolve, this.#ended.reject);
  }

  async #settle(): Promise<void> {
    if (this.#reserved.length === 0) return;
    const { statedCosts } = this.#forwarding;
    await this.#admission.settle((spend) => statedCosts?.costOf(spend.policy.name) ?? this.#costOf(spend));
  }
}

export class StatedCosts {
  /** The policies whose costs are open. */
  readonly #open = new Set<string>();
  readonly #costs = new Map<string, number>();
  readonly #mayState: (policy: string) => boolean;
  #settle = async (): Promise<void> => undefined;

  /** @param mayState whether the handler may state the cost of a policy */
  constructor(mayState: (policy: string) => boolean) {
    this.#mayState = mayState;
  }

  /** @param settle called after each stated cost */
  open(policies: readonly string[], settle: () => Promise<void>): void {
    for (const policy of policies) if (this.#mayState(policy)) this.#open.add(policy);
    this.#settle = settle;
  }

  /** Costs that are stated later have no effect. */
  close(): void {
    this.#open.clear();
  }

  get hasOpen(): boolean {
    return this.#open.size > 0;
  }

  mayState(policy: string): boolean {
    return this.#mayState(policy);
  }

  /** Null as long as no cost is stated. */
  costOf(policy: string): number | null {
    return this.#costs.get(policy) ?? null;
  }

  /**
   * States the cost of a policy's reservation, once.
   * @returns whether the statement takes effect
   */
  async state(policy: string, cost: number): Promise<boolean> {
    if (!this.#open.delete(policy)) return false;
    this.#costs.set(policy, cost);
    await this.#settle();
    return true;
  }
}
