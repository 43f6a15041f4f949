/** The parts of a request that policies match and that keys are made of. */
import type { RequestTarget } from "./request-target.ts";
import type { WithLimits } from "./stated-limits.ts";

export interface RequestAttributes {
  readonly method: string;
  readonly target: RequestTarget;
  readonly headers: Headers;
  /** A property of `request.cf`; undefined where the runtime knows no location. */
  readonly cf: (name: string) => unknown;
  readonly cookies: (name: string) => readonly string[];
  /** The key that the Worker's code gives a policy, by its name. Default: no policy has such a key. */
  readonly customKey?: (policy: string) => string | null;
  /** The limits that the Worker's code states for the request. Default: those of the policy. */
  readonly withLimits?: WithLimits;
}

/** The claims of a verified token; empty without one. */
export type Claims = Readonly<Record<string, unknown>>;

export interface TokenClaims {
  readonly claims: Claims;
  /**
   * The claims that an origin may read where the credentials are not one bearer token: each is a list. They can only deny
   * the request. Null when there are too many tokens to verify. Default: `claims`.
   */
  readonly possible?: Claims | null;
}
