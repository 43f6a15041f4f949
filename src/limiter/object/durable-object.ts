/**
 * The Durable Object on the platform: each method answers a call from limiter/isolate. All work is in key-object.ts, which tests
 * also run without the platform.
 */
import { DurableObject } from "cloudflare:workers";
import type { RulesVersion } from "../../policy/runtime-rules.ts";
import { platformClock } from "../clock.ts";
import type { ExplainReply } from "../explanation.ts";
import type { FlatList } from "../flat-calls.ts";
import { KeyObject } from "./key-object.ts";
import type * as calls from "../protocol.ts";

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

  decideTree(texts: readonly string[], keys: readonly string[], checks: FlatList): FlatList {
    return this.#limiter.decideTree(texts, keys, checks);
  }

  reserveTree(call: calls.ReserveCall): calls.ReserveReply {
    return this.#limiter.reserveTree(call);
  }

  refundTree(call: calls.RefundCall): void {
    this.#limiter.refundTree(call);
  }

  explainTree(call: calls.CheckCall): ExplainReply {
    return this.#limiter.explainTree(call);
  }

  check(call: calls.CheckCall): calls.CheckReply {
    return this.#limiter.check(call);
  }

  lease(call: calls.LeaseCall): calls.LeaseReply {
    return this.#limiter.lease(call);
  }

  giveBackSlices(call: calls.ReturnCall): calls.ReturnReply {
    return this.#limiter.giveBackSlices(call);
  }

  look(call: calls.CheckCall): calls.CheckReply {
    return this.#limiter.look(call);
  }

  explain(call: calls.CheckCall): ExplainReply {
    return this.#limiter.explain(call);
  }

  refund(call: calls.RefundCall): void {
    this.#limiter.refund(call);
  }

  forget(call: calls.ForgetCall): void {
    this.#limiter.forget(call);
  }

  reserve(call: calls.ReserveCall): calls.ReserveReply {
    return this.#limiter.reserve(call);
  }

  sync(call: calls.SyncCall): calls.SyncReply {
    return this.#limiter.sync(call);
  }

  renew(call: calls.RenewCall): calls.RenewReply {
    return this.#limiter.renew(call);
  }

  settle(call: calls.SettleCall): calls.SettleReply {
    return this.#limiter.settle(call);
  }

  setRules(key: string, policy: string, rules: readonly calls.KeyRule[], version: RulesVersion): calls.SetRulesReply {
    return this.#limiter.setRules(key, policy, rules, version);
  }

  override alarm(): Promise<void> {
    return this.#limiter.alarm();
  }
}
