/** The control plane's client in an isolate: the policies in effect, and the beats that keep them up to date. */
import { modeOf } from "../../policy/runtime-rules.ts";
import type { Policy } from "../../policy/policy.ts";
import { type Clock, platformClock } from "../../limiter/clock.ts";
import { platformRetries, type WaitUntil } from "../../limiter/object-calls.ts";
import type { StaleRules } from "../../limiter/protocol.ts";
import { type BeatCall, type BeatReply, controlPlaneName, type PolicyInfo } from "../protocol.ts";
import { type BeatSource, type Deployment, Heartbeat, noStatistics } from "./heartbeat.ts";
import { RulesInEffect } from "./rules-in-effect.ts";

/** The binding of the control plane object. */
export interface ControlPlaneObjects {
  readonly getByName: (
    name: string,
    options: { readonly retry: typeof platformRetries },
  ) => { readonly beat: (call: BeatCall) => Promise<BeatReply> };
}

export interface ControlClientOptions {
  /** The policies of the configuration. */
  readonly policies: readonly Policy[];
  readonly objects: ControlPlaneObjects;
  /** The version of the code. */
  readonly codeVersion: string;
  /** The HMAC with `KEY_SECRET`. */
  readonly hash: (text: string) => Promise<string>;
  readonly statistics?: BeatSource;
  readonly clock?: Clock;
  readonly random?: () => number;
}

export class ControlClient {
  readonly #rules: RulesInEffect;
  readonly #heartbeat: Heartbeat;
  readonly #clock: Clock;
  /** Identifies `KEY_SECRET` in rules and beats, without revealing it. */
  readonly secretId: () => Promise<string>;

  constructor(options: ControlClientOptions) {
    const { policies, objects, statistics = noStatistics, clock = platformClock, random } = options;
    this.#clock = clock;
    this.secretId = secretIdBy(options.hash);
    this.#rules = new RulesInEffect(policies);
    this.#heartbeat = new Heartbeat({
      isolate: crypto.randomUUID(),
      rules: this.#rules,
      statistics,
      describe: describer(options, this.secretId),
      // A new stub for each call: a stub that has thrown stays broken.
      send: (call) => objects.getByName(controlPlaneName, { retry: platformRetries }).beat(call),
      clock,
      ...(random !== undefined && { random }),
    });
  }

  /** The policies in effect, in the order of the configuration. The same list until it changes. */
  policies(nowMs: number = this.#clock.now()): readonly Policy[] {
    return this.#rules.policies(nowMs);
  }

  /** Counts a request, and starts a beat alongside it if one is due. */
  touch(waitUntil: WaitUntil): void {
    this.#heartbeat.touch(this.#clock.now(), waitUntil);
  }

  /** Sends beats every second, until a reply says that no operator reads the statistics. */
  watch(): void {
    this.#heartbeat.watch();
  }

  /** Adopts the newer rules of an object's reply, and starts a beat for them at most once a second. */
  adopt(rules: readonly StaleRules[], waitUntil: WaitUntil): void {
    this.#rules.adopt(rules);
    this.#heartbeat.refresh(this.#clock.now(), waitUntil);
  }
}

const hashLength = 16;

/*
 * The functions below keep values and not promises: the platform may cancel the request that computes one, and its
 * promise would then never settle.
 */

function secretIdBy(hash: ControlClientOptions["hash"]): () => Promise<string> {
  let id: string | null = null;
  return async () => (id ??= (await hash(JSON.stringify({ secret: "id" }))).slice(0, hashLength));
}

function describer({ policies, codeVersion, hash }: ControlClientOptions, secretId: () => Promise<string>) {
  let described: Deployment | null = null;
  return async (): Promise<Deployment> => {
    if (described !== null) return described;
    const infos = policies.map(infoOf);
    const whole = await hash(JSON.stringify({ deployment: [codeVersion, infos] }));
    const deployment = whole.slice(0, hashLength);
    described = { deployment, secretId: await secretId(), policies: infos };
    return described;
  };
}

const infoOf = (policy: Policy): PolicyInfo => ({
  name: policy.name,
  mode: modeOf(policy),
  objects: policy.objects,
  limits: limitInfos(policy),
});

export const limitInfos = ({ limits }: Pick<Policy, "limits">): PolicyInfo["limits"] =>
  limits.map(({ name, limit, windowMs }) => ({ name, limit, windowMs }));
