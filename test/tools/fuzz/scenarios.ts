/**
 * What is asked of the proxy: policies of every kind, each with its own path, and requests that are drawn for them
 * together with what they mean. The meaning comes from how a request was made, not from reading it as Headgate does.
 */
import type { OriginInstruction } from "./origin.ts";
import type { Draw } from "./draw.ts";
import type { ExpectedCharge, Quota } from "./ledger.ts";

/** A request for a scenario, but for what all of them have. */
export interface DrawnRequest {
  /** The path below the scenario's. */
  readonly path?: readonly string[];
  /** The whole path as it is sent, in place of one of the spellings that all origins read alike. */
  readonly target?: string;
  /** Parameters as they are sent. */
  readonly query?: readonly string[];
  readonly method?: string;
  readonly host?: string;
  /** Lines of the head. */
  readonly lines?: readonly string[];
  readonly ask?: Partial<OriginInstruction>;
  /** What follows the head in place of a body. */
  readonly after?: string;
  readonly charges: readonly ExpectedCharge[];
  /** Refused with 403, whatever is left. */
  readonly isBarred?: boolean;
  /** A key that may be banned. */
  readonly bannable?: string;
  /** Counted by time or by slots, not by units that stay spent. */
  readonly passage?: { readonly kind: "slot" | "queue"; readonly key: string };
}

export interface Scenario {
  /** Its path is `/<name>`. */
  readonly name: string;
  /** As in `POLICIES`, but for what all have. */
  readonly policies: readonly object[];
  readonly draw: (draw: Draw) => DrawnRequest | Promise<DrawnRequest>;
  /** The status of a denial; 429 if there is none. */
  readonly denial?: number;
  /** Whether `/check` may spend of its keys too: it says nothing but the key and the cost. */
  readonly isCheckable?: boolean;
}

/** A window that gives nothing back while a run lasts. */
export const longWindow = "60 days";

export const allOf = (name: string): { path: string } => ({ path: `/${name}/*` });

/** A policy with one limit, which is called after it. */
export const quotaOf = (name: string, limit: number): Quota[] => [{ name, limit }];

/** A charge of one unit, unless told otherwise. */
export function charge(
  policy: string,
  key: string | null,
  limit: number,
  other: Partial<ExpectedCharge> = {},
): ExpectedCharge {
  return {
    policy,
    key: key ?? "(nobody)",
    named: key === null ? null : [key],
    quotas: quotaOf(policy, limit),
    cost: 1,
    finalCost: 1,
    ...other,
  };
}
