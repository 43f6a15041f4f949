/**
 * The Durable Object on the platform: each method answers a call from limiter/client. All work is in limiter.ts, which tests
 * also run without the platform.
 */
import { DurableObject } from "cloudflare:workers";
import type { RulesVersion } from "../../policy/runtime-rules.ts";
import { platformClock } from "../clock.ts";
import type { FlatList } from "../flat-calls.ts";
import { Limiter } from "./limiter.ts";
import type {
  CheckCall,
  ExplainReply,
  ForgetCall,
  KeyRule,
  LeaseCall,
  LeaseReply,
  RefundCall,
  RenewCall,
  RenewReply,
  ReserveReply,
  ReserveCall,
  ReturnCall,
  ReturnReply,
  SetRulesReply,
  SettleReply,
  SettleCall,
  SyncCall,
  SyncReply,
  CheckReply,
} from "../protocol.ts";

/** The Durable Object that keeps the counters of a key, or of the keys of a shard. */
export class RateLimiter extends DurableObject<object> {
  readonly #limiter: Limiter;

  constructor(ctx: DurableObjectState, env: object) {
    super(ctx, env);
    this.#limiter = new Limiter({ storage: ctx.storage, ...platformClock });
  }

  decide(texts: readonly string[], checks: FlatList): FlatList {
    return this.#limiter.decide(texts, checks);
  }

  check(call: CheckCall): CheckReply {
    return this.#limiter.check(call);
  }

  lease(call: LeaseCall): LeaseReply {
    return this.#limiter.lease(call);
  }

  giveBackSlices(call: ReturnCall): ReturnReply {
    return this.#limiter.giveBackSlices(call);
  }

  look(call: CheckCall): CheckReply {
    return this.#limiter.look(call);
  }

  explain(call: CheckCall): ExplainReply {
    return this.#limiter.explain(call);
  }

  refund(call: RefundCall): void {
    this.#limiter.refund(call);
  }

  forget(call: ForgetCall): void {
    this.#limiter.forget(call);
  }

  reserve(call: ReserveCall): ReserveReply {
    return this.#limiter.reserve(call);
  }

  sync(call: SyncCall): SyncReply {
    return this.#limiter.sync(call);
  }

  renew(call: RenewCall): RenewReply {
    return this.#limiter.renew(call);
  }

  settle(call: SettleCall): SettleReply {
    return this.#limiter.settle(call);
  }

  setRules(key: string, policy: string, rules: readonly KeyRule[], version: RulesVersion): SetRulesReply {
    return this.#limiter.setRules(key, policy, rules, version);
  }

  override alarm(): Promise<void> {
    return this.#limiter.alarm();
  }
}
