/**
 * The control plane object on the platform: beats of isolates, and calls of the admin API. All work is in the classes beside
 * this file, which tests also run without the platform.
 */
import { DurableObject } from "cloudflare:workers";
import { platformClock } from "../../limiter/clock.ts";
import type { BeatCall, BeatReply } from "../protocol.ts";
import { Meta } from "./meta.ts";
import { Scheduler } from "./scheduler.ts";

export class ControlPlane extends DurableObject<Env> {
  readonly #meta: Meta;
  readonly #scheduler: Scheduler;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    const { storage } = ctx;
    this.#meta = new Meta(storage, platformClock.now());
    this.#scheduler = new Scheduler(storage, platformClock, []);
  }

  beat(call: BeatCall): BeatReply {
    const { epoch } = this.#meta;
    if (call.epoch > epoch) this.#meta.beginEpochAbove(call.epoch, platformClock.now());
    return {
      epoch: this.#meta.epoch,
      changed: [],
      storedSeq: 0,
      isWatched: false,
      isTailed: false,
      hasRules: false,
      wantsPolicies: false,
    };
  }

  override alarm(): Promise<void> {
    return this.#scheduler.alarm();
  }
}
