/** Calls the control plane object for the admin API, with a deadline. */
import { type Clock, withDeadline } from "../limiter/clock.ts";
import { sqliteProblem } from "../limiter/isolate/object-caller.ts";
import { platformRetries } from "../limiter/protocol.ts";
import type { Failure } from "../http/wire/problems.ts";
import { errorText, report } from "../observability/events.ts";
import { ConfigProblems, describeProblem } from "../validation/problems.ts";
import { controlPlaneName, type ControlPlaneMethods, type Done, type RefusedChange } from "../control/protocol.ts";
import { CallRefused } from "./context.ts";

/** The methods of the object as they are called from outside of it. */
export type ControlPlaneStub = {
  readonly [Name in keyof ControlPlaneMethods]: (
    ...parameters: Parameters<ControlPlaneMethods[Name]>
  ) => Promise<Awaited<ReturnType<ControlPlaneMethods[Name]>>>;
} & { readonly fetch: (request: Request) => Promise<Response> };

/** The binding of the object. */
export interface ControlPlaneBinding {
  readonly getByName: (
    name: string,
    options: { readonly retry: { readonly maxRetries: number; readonly timeoutMs?: number } },
  ) => ControlPlaneStub;
}

/** The platform must not repeat a change: a second call would create a second rule, or be refused as outdated. */
const noRetries = { maxRetries: 0 };

const deadlineMs = 2_000;

export class ControlPlaneCaller {
  readonly #objects: ControlPlaneBinding;
  readonly #clock: Clock;

  constructor(objects: ControlPlaneBinding, clock: Clock) {
    this.#objects = objects;
    this.#clock = clock;
  }

  /**
   * @throws CallRefused when the object fails or does not answer in time
   * @throws ConfigProblems when its class has no SQLite storage, so that it will never answer
   */
  async call<Reply>(
    send: (stub: ControlPlaneStub) => Promise<Reply>,
    retry: Parameters<ControlPlaneBinding["getByName"]>[1]["retry"] = platformRetries,
  ): Promise<Reply> {
    try {
      // A new stub for each call: a stub that has thrown stays broken.
      const stub = this.#objects.getByName(controlPlaneName, { retry });
      return await withDeadline(this.#clock, send(stub), deadlineMs);
    } catch (error) {
      const problem = sqliteProblem(error, "CONTROL_PLANE", "ControlPlane");
      if (problem !== null) {
        report({ event: "configuration-invalid", problems: [describeProblem(problem)] });
        throw new ConfigProblems([problem]);
      }
      report({ event: "control-plane-silent", error: errorText(error) });
      throw new CallRefused({ kind: "control-plane-silent" });
    }
  }

  /**
   * @param unknown the failure when the object does not know what the change names
   * @throws CallRefused also when the object refuses the change
   */
  async change<Reply extends Done<unknown>>(
    send: (stub: ControlPlaneStub) => Promise<Reply | RefusedChange>,
    unknown: Failure = { kind: "unknown-rule" },
  ): Promise<Reply> {
    const changed = await this.call(send, noRetries);
    if (changed.kind === "done") return changed;
    switch (changed.kind) {
      case "unknown":
        throw new CallRefused(unknown);
      case "outdated":
        throw new CallRefused({ kind: "precondition-failed", etag: `"${changed.revision}"` });
      case "key-reused":
        throw new CallRefused({ kind: "idempotency-key-reused" });
      case "changed-since":
        throw new CallRefused({ kind: "changed-since", seq: changed.seq });
      case "nothing-to-undo":
        throw new CallRefused({ kind: "nothing-to-undo" });
      case "replaced":
        throw new CallRefused({ kind: "rollback-replaced" });
      case "too-many":
        throw new CallRefused({ kind: "rules-full", most: changed.most });
      case "too-large":
        throw new CallRefused({ kind: "rules-too-large", mostBytes: changed.mostBytes });
      default:
        return changed satisfies never;
    }
  }
}
