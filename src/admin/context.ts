/** The dependencies and functions that the handlers of the admin API share. */
import type { Context } from "hono";
import type { AdminRight } from "../policy/vars/secrets.ts";
import type { JwtSettings } from "../policy/vars/jwt.ts";
import type { Policy } from "../policy/policy.ts";
import type { ControlClient } from "../control/isolate/control-client.ts";
import type { KeySealer } from "../control/isolate/key-sealer.ts";
import type { Clock } from "../limiter/clock.ts";
import type { Assets } from "../http/openapi.ts";
import type { Runtime } from "../http/runtime.ts";
import type { Operator } from "./authenticate.ts";
import type { ControlPlaneCaller } from "./control-plane-caller.ts";
import { CallRefused } from "./refusal.ts";

export interface AdminContext {
  /** The path of the API, such as `/_headgate/api`. */
  readonly apiPath: string;
  /** Undefined when the binding is missing. */
  readonly assets: Assets | undefined;
  readonly runtime: Runtime;
  readonly control: ControlClient;
  /** The policies of the configuration, without runtime rules. */
  readonly policies: readonly Policy[];
  readonly jwt: JwtSettings | null;
  /** One key in this many is in the sample of traffic; null without a sample. */
  readonly sampleOneKeyIn: number | null;
  readonly controlPlane: ControlPlaneCaller;
  readonly sealer: KeySealer;
  readonly clock: Clock;
}

/** The variables of authenticated requests. */
export interface Authenticated {
  Variables: { operator: Operator };
}

export type AuthorizedCall = Context<Authenticated>;

/** @throws CallRefused when no policy of the configuration has the name */
export function policyOf({ policies }: AdminContext, name: string): Policy {
  const policy = policies.find((each) => each.name === name);
  if (policy === undefined) throw new CallRefused({ kind: "unknown-policy" });
  return policy;
}

/** @throws CallRefused when the operator lacks the right */
export function requireRight({ actor, may }: Operator, right: AdminRight): void {
  if (may.has(right)) return;
  const via = actor.via === "access" ? "access" : "token";
  throw new CallRefused({ kind: "operator-not-permitted", right, via });
}

/** A partition key: 256 bits in base64url. */
export const isKeyId = (text: string): boolean => /^[\w-]{43}$/.test(text);

/** @throws CallRefused when the text is no partition key */
export function keyIdOf(text: string): string {
  if (!isKeyId(text)) throw new CallRefused({ kind: "unknown-key" });
  return text;
}

/** An answer in JSON. Each call must state its type, which is one of `wire.ts`. */
export const answer = <View extends object = never>(
  value: NoInfer<View>,
  status = 200,
  headers: Readonly<Record<string, string>> = {},
): Response => Response.json(value, { status, headers: { "Cache-Control": "no-store", ...headers } });

export const emptyAnswer = (): Response =>
  new Response(null, { status: 204, headers: { "Cache-Control": "no-store" } });

export const instantText = (atMs: number): string => new Date(atMs).toISOString();
