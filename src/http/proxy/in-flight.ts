/** An admitted request: it waits for its turn in a queue, is forwarded, and its reservations are settled. */
import type { Policy } from "../../config/index.ts";
import type { Admission, CostOf } from "../../limiter/client/admission.ts";
import type { WaitUntil } from "../../limiter/client/object-caller.ts";
import type { Spend } from "../../limiter/client/outcome.ts";
import { type Clock, every, sleep } from "../../limiter/clock.ts";
import { costOfResponse } from "../../policies/cost.ts";
import { holdsSlots } from "../../strategies/index.ts";
import { proxyErrorOf } from "../wire/proxy-errors.ts";
import { withBodyEnd } from "./body.ts";
import type { ChargedRequest } from "../record-outcomes.ts";
import type { Forward } from "./forward.ts";
import { withSocketEnd } from "./websocket.ts";

/** A reservation is renewed while its request runs. If the Worker dies, the reservation expires after this time. */
const reservationMs = 60_000;
const leastRenewalMs = 100;

/** How long a spend of this policy stays reserved, in milliseconds; null when the charge is final at once. */
export const reservationTtlMs = ({ count, cost, limits }: Policy): number | null =>
  count !== null || cost.kind === "response" || limits.some(holdsSlots) ? reservationMs : null;

const chargedCost: CostOf = ({ cost }) => cost;

const clientGoneResponse = (): Response => new Response(null, { status: 499 });

interface Forwarding {
  readonly clock: Clock;
  readonly forward: Forward;
  readonly waitUntil: WaitUntil;
}

/** Waits for the request's turn in a queue, and forwards the request. Responds with 499 if the client has disconnected. */
export function forwardAdmitted(
  request: Request,
  { spends, admission }: Pick<ChargedRequest, "spends" | "admission">,
  { clock, forward, waitUntil }: Forwarding,
): Promise<Response> {
  const isReserved = spends.some(({ ttlMs }) => ttlMs !== undefined);
  const delayMs = admission.outcomes.reduce((mostMs, outcome) => {
    const isDelaying = "decision" in outcome && !outcome.policy.isDryRun;
    return isDelaying ? Math.max(mostMs, outcome.decision.delayMs) : mostMs;
  }, 0);
  if (!isReserved && delayMs === 0) {
    return request.signal.aborted ? Promise.resolve(clientGoneResponse()) : forward(request);
  }
  return new InFlight(spends, admission, delayMs, clock).answer(request, forward, waitUntil);
}

class InFlight {
  readonly #admission: Admission;
  readonly #delayMs: number;
  readonly #clock: Clock;
  /** With the limits in effect for the key, which a key rule may have given. */
  readonly #reserved: readonly Policy[];
  readonly #clientGone = new AbortController();
  readonly #ended = Promise.withResolvers<void>();
  /** The final cost of each spend, as far as it is known. */
  #costOf = chargedCost;
  #stopRenewing = (): void => undefined;
  #isForwarded = false;
  #hasEnded = false;

  constructor(spends: readonly Spend[], admission: Admission, delayMs: number, clock: Clock) {
    this.#admission = admission;
    this.#delayMs = delayMs;
    this.#clock = clock;
    const inEffect = new Map(admission.outcomes.map(({ policy }) => [policy.name, policy]));
    this.#reserved = spends.flatMap(({ policy, ttlMs }) =>
      ttlMs === undefined ? [] : (inEffect.get(policy.name) ?? policy),
    );
  }

  async answer(request: Request, forward: Forward, waitUntil: WaitUntil): Promise<Response> {
    // Keeps the Worker running until everything is settled, even if the client goes away.
    waitUntil(this.#ended.promise);
    this.#watchClient(request.signal);
    this.#renewReservations();
    try {
      if (this.#delayMs > 0) await sleep(this.#clock, this.#delayMs, this.#clientGone.signal);
      if (this.#clientGone.signal.aborted) return clientGoneResponse();
      this.#isForwarded = true;
      if (this.#reserved.length === 0) this.#end(async () => undefined);
      return this.#settleWith(await forward(request, this.#clientGone.signal));
    } catch (error) {
      this.#end(() => this.#admission.settle(chargedCost));
      throw error;
    }
  }

  /**
   * A client that goes away before its turn gets everything refunded. If it goes away later, its slots are released,
   * and its costs are settled as far as the response has stated them.
   */
  #watchClient(signal: AbortSignal): void {
    const leave = (): void => {
      this.#clientGone.abort();
      this.#end(() =>
        this.#isForwarded ? this.#admission.settle(this.#costOf) : this.#admission.giveBack(),
      );
    };
    if (signal.aborted) leave();
    else signal.addEventListener("abort", leave, { once: true });
  }

  #renewReservations(): void {
    if (this.#reserved.length === 0) return;
    const slotLeases = this.#reserved.flatMap(({ limits }) =>
      limits.filter(holdsSlots).map(({ windowMs }) => windowMs),
    );
    const renewalMs = Math.max(
      leastRenewalMs,
      Math.floor(Math.min(reservationMs, ...slotLeases) / 2),
    );
    this.#stopRenewing = every(this.#clock, renewalMs, () => void this.#admission.renew());
  }

  /** Settles when the response begins, which states its cost. A response that holds slots is settled when it ends. */
  #settleWith(response: Response): Response {
    this.#costOf = ({ policy, cost }) => costOfResponse(policy, cost, response);
    const settle = (): void => this.#end(() => this.#admission.settle(this.#costOf));
    // A problem response of Headgate itself occupies no slot of the origin.
    const isFromOrigin = proxyErrorOf(response) === null;
    const hasSlots = isFromOrigin && this.#reserved.some(({ limits }) => limits.some(holdsSlots));
    if (hasSlots && response.webSocket !== null) return withSocketEnd(response, settle);
    if (hasSlots && response.body !== null) {
      return withBodyEnd(response, response.body, this.#clientGone.signal, settle);
    }
    settle();
    return response;
  }

  #end(finish: () => Promise<void>): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#stopRenewing();
    finish().then(this.#ended.resolve, this.#ended.reject);
  }
}
