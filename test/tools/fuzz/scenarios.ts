/**
 * A scenario: policies with their own path, and random requests. The expected charges follow from how the requests were
 * made, instead of from reading them as Headgate does.
 */
import type { OriginInstruction } from "./origin.ts";
import type { Draw } from "./draw.ts";
import type { ExpectedCharge, Quota } from "./ledger.ts";

/** The parts of a request that a scenario determines. */
export interface DrawnRequest {
  /** The path segments after the scenario's own segment. */
  readonly path?: readonly string[];
  /** The whole path as sent, instead of a spelling that all origins read alike. */
  readonly target?: string;
  /** The query parameters as sent. */
  readonly query?: readonly string[];
  readonly method?: string;
  readonly host?: string;
  /** Lines of the request's head. */
  readonly lines?: readonly string[];
  readonly ask?: Partial<OriginInstruction>;
  /** Bytes that follow the head instead of a body. */
  readonly after?: string;
  readonly charges: readonly ExpectedCharge[];
  /** Set if the request is denied with 403, regardless of the remaining units. */
  readonly isBarred?: boolean;
  /** The key that the request may ban. */
  readonly bannable?: string;
  /** Set for queues and slots, whose units return during a run. */
  readonly passage?: { readonly kind: "slot" | "queue"; readonly key: string };
}

export interface Scenario {
  /** The scenario's path is `/<name>`. */
  readonly name: string;
  /** The policies, without the fields that all of them share. */
  readonly policies: readonly object[];
  readonly draw: (draw: Draw) => DrawnRequest | Promise<DrawnRequest>;
  /** The status of a denial; 429 by default. */
  readonly denial?: number;
  /** Whether `/check` may also charge the scenario's keys, by key and cost alone. */
  readonly isCheckable?: boolean;
}

/** A window that outlasts a run, so that no units return during the run. */
export const longWindow = "60 days";

export const allOf = (name: string): { path: string } => ({ path: `/${name}/*` });

/** A policy with one limit, whose name is that of the policy. */
export const quotaOf = (name: string, limit: number): Quota[] => [{ name, limit }];

/** A charge, by default of one unit. */
export function charge(
  policy: string,
  key: string | null,
  limit: number,
  other: Partial<ExpectedCharge> = {},
): ExpectedCharge {
  return {
    policy,
    key: key ?? "(no key)",
    named: key === null ? null : [key],
    quotas: quotaOf(policy, limit),
    cost: 1,
    finalCost: 1,
    ...other,
  };
}
