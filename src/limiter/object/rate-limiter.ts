/** The Durable Object: the limiter on the platform. Its methods are what Workers call. */
import { DurableObject } from "cloudflare:workers";
import { platformClock } from "../clock.ts";
import { Limiter } from "./limiter.ts";
import type {
  BatchCall,
  CheckCall,
  ForgetCall,
  LeaseCall,
  Leased,
  RefundCall,
  RenewCall,
  Renewed,
  Reserved,
  ReserveCall,
  ReturnCall,
  Returned,
  Settled,
  SettleCall,
  SyncCall,
  Synced,
  Verdict,
} from "../protocol.ts";

export class RateLimiter extends DurableObject<Env> {
  readonly #limiter: Limiter;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#limiter = new Limiter({ storage: ctx.storage, ...platformClock });
  }

  check(call: CheckCall): Verdict {
    return this.#limiter.check(call);
  }

  lease(call: LeaseCall): Leased {
    return this.#limiter.lease(call);
  }

  giveBackSlices(call: ReturnCall): Returned {
    return this.#limiter.giveBackSlices(call);
  }

  batch(call: BatchCall): Verdict[] {
    return this.#limiter.batch(call);
  }

  look(call: CheckCall): Verdict {
    return this.#limiter.look(call);
  }

  refund(call: RefundCall): void {
    this.#limiter.refund(call);
  }

  forget(call: ForgetCall): void {
    this.#limiter.forget(call);
  }

  reserve(call: ReserveCall): Reserved {
    return this.#limiter.reserve(call);
  }

  sync(call: SyncCall): Synced {
    return this.#limiter.sync(call);
  }

  renew(call: RenewCall): Renewed {
    return this.#limiter.renew(call);
  }

  settle(call: SettleCall): Settled {
    return this.#limiter.settle(call);
  }

  override alarm(): Promise<void> {
    return this.#limiter.alarm();
  }
}
