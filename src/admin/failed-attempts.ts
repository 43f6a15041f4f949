/** Limits the requests with invalid credentials of each address, in this isolate and without any object. */
import type { Clock } from "../limiter/clock.ts";
import { BoundedMap } from "../policy/bounded-map.ts";
import { visitorKey, visitorOf } from "../policy/address.ts";
import { createMeter, type Meter, parseLimits } from "../strategies/index.ts";
import { CallRefused } from "./refusal.ts";

const limits = parseLimits("10/minute");
const mostAddresses = 1_024;
/** Clients of one IPv6 network count together. */
const addressing = { ipv6Prefix: 64, trustedProxies: null };

export class FailedAttempts {
  readonly #clock: Pick<Clock, "now">;
  readonly #meters = new BoundedMap<Meter>(mostAddresses);

  constructor(clock: Pick<Clock, "now">) {
    this.#clock = clock;
  }

  /**
   * @throws CallRefused when the address has had too many failed attempts, even if the credentials of this one are
   * valid
   */
  refuseIfLimited(request: Request): void {
    const decision = this.#meters.get(addressOf(request))?.look(1, this.#clock.now());
    if (decision === undefined || decision.allowed) return;
    const { retryAfterMs } = decision;
    throw new CallRefused({ kind: "attempts-exceeded", retryAfterMs: retryAfterMs ?? 60_000 });
  }

  /** Counts a failed attempt. */
  note(request: Request): void {
    const address = addressOf(request);
    const meter = this.#meters.get(address) ?? createMeter(limits);
    meter.consume(1, this.#clock.now());
    this.#meters.set(address, meter);
  }
}

/** Clients without a known address count together. */
const addressOf = ({ headers }: Request): string =>
  visitorKey(visitorOf(headers, addressing), addressing.ipv6Prefix) ?? "";
