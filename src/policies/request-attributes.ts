/** The parts of a request that policies match and that keys are made of. */
import type { RequestTarget } from "./request-target.ts";

export interface RequestAttributes {
  readonly method: string;
  readonly target: RequestTarget;
  readonly headers: Headers;
  /** A property of `request.cf`; undefined where the runtime knows no location. */
  readonly cf: (name: string) => unknown;
  readonly cookies: (name: string) => readonly string[];
}

/** The claims of a verified token; empty without one. */
export type Claims = Readonly<Record<string, unknown>>;
