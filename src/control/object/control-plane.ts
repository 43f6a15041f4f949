/**
 * The control plane object on the platform: each method answers an isolate's beat or a call of the admin API. All work is in
 * control.ts, which tests also run without the platform.
 */
import { DurableObject } from "cloudflare:workers";
import { platformClock } from "../../limiter/clock.ts";
import type {
  AuditEntry,
  BeatCall,
  BeatReply,
  Changed,
  ControlPlaneMethods,
  NotedAction,
  Page,
  PolicyPatch,
  PolicyState,
  Rollback,
  Rule,
  RuleCreation,
  RuleDeletion,
  RuleQuery,
  RuleReplacement,
} from "../protocol.ts";
import { Control } from "./control.ts";
import { pushTo } from "./push.ts";

export class ControlPlane
  extends DurableObject<Env>
  implements Omit<ControlPlaneMethods, "statistics" | "top" | "metrics" | "ticket">
{
  readonly #control: Control;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#control = new Control({
      storage: ctx.storage,
      clock: platformClock,
      push: pushTo(env.RATE_LIMITER),
      randomId: () => crypto.randomUUID().slice(0, 8),
      recorder: {
        recordBeat: () => ({ storedSeq: 0, isWatched: false, isTailed: false }),
        tasks: [],
      },
    });
  }

  beat(call: BeatCall): BeatReply {
    return this.#control.beat(call);
  }

  policyState(policy: string): PolicyState {
    return this.#control.policyState(policy);
  }

  rules(query: RuleQuery): Page<Rule> {
    return this.#control.rules(query);
  }

  rule(id: string): Rule | null {
    return this.#control.rule(id);
  }

  createRule(call: RuleCreation): Promise<Changed<Rule>> {
    return this.#control.createRule(call);
  }

  replaceRule(call: RuleReplacement): Promise<Changed<Rule>> {
    return this.#control.replaceRule(call);
  }

  deleteRule(call: RuleDeletion): Promise<Changed<null>> {
    return this.#control.deleteRule(call);
  }

  changePolicy(call: PolicyPatch): Changed<PolicyState> {
    return this.#control.changePolicy(call);
  }

  rollback(call: Rollback): Promise<Changed<readonly Rule[]>> {
    return this.#control.rollback(call);
  }

  note(action: NotedAction): void {
    this.#control.note(action);
  }

  audit(query: { readonly cursor?: string; readonly limit: number }): Page<AuditEntry> {
    return this.#control.audit(query);
  }

  sealedKey(policy: string, key: string): string | null {
    return this.#control.sealedKey(policy, key);
  }

  override alarm(): Promise<void> {
    return this.#control.alarm();
  }
}
