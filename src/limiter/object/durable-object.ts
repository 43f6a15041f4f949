/**
 * The Durable Object on the platform: each method answers a call from limiter/isolate. All work is in key-object.ts, which tests
 * also run without the platform.
 */
import { DurableObject } from "cloudflare:workers";
import type { RulesVersion } from "../../policy/runtime-rules.ts";
import { platformClock } from "../clock.ts";
import type { FlatList } from "../flat-calls.ts";
import { KeyObject } from "./key-object.ts";
import type {
  CheckCall,
  CheckReply,
  ExplainReply,
  ForgetCall,
  KeyRule,
  LeaseCall,
  LeaseReply,
  RefundCall,
  RenewCall,
  RenewReply,
  ReserveCall,
  ReserveReply,
  ReturnCall,
  ReturnReply,
  SetRulesReply,
  SettleCall,
  SettleReply,
  SyncCall,
  SyncReply,
} from "../protocol.ts";

/** The Durable Object that keeps the counters of a key, or of the keys of a shard. */
export class RateLimiter extends DurableObject<object> {
  readonly #limiter: KeyObject;

  constructor(ctx: DurableObjectState, env: object) {
    super(ctx, env);
    this.#limiter = new KeyObject({ storage: ctx.storage, ...platformClock });
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
