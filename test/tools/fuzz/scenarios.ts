/**
 * A scenario: policies with a path of their own, and random requests whose expected charges follow from how they were
 * made, rather than from reading them as Headgate does.
 */
import type { OriginInstruction } from "./origin.ts";
import type { Draw } from "./draw.ts";
import type { ExpectedCharge, Quota } from "./ledger.ts";

/** The parts of a request that a scenario determines. */
export interface DrawnRequest {
  /** Path segments after the scenario's. */
  readonly path?: readonly string[];
  /** The whole path as sent, in place of a spelling that all origins read alike. */
  readonly target?: string;
  /** Query parameters as sent. */
  readonly query?: readonly string[];
  readonly method?: string;
  readonly host?: string;
  /** Lines of the head. */
  readonly lines?: readonly string[];
  readonly ask?: Partial<OriginInstruction>;
  /** Bytes after the head in place of a body. */
  readonly after?: string;
  readonly charges: readonly ExpectedCharge[];
  /** Denied with 403, with any number of units remaining. */
  readonly isBarred?: boolean;
  /** The key that the request may ban. */
  readonly bannable?: string;
  /** Set for limits by time or slots, whose units return during a run. */
  readonly passage?: { readonly kind: "slot" | "queue"; readonly key: string };
}

export interface Scenario {
  /** The scenario's path is `/<name>`. */
  readonly name: string;
  /** Policies without the fields that all of them share. */
  readonly policies: readonly object[];
  readonly draw: (draw: Draw) => DrawnRequest | Promise<DrawnRequest>;
  /** The status of a denial; 429 by default. */
  readonly denial?: number;
  /** Whether `/check` may charge its keys too, by key and cost alone. */
  readonly isCheckable?: boolean;
}

/** A window that returns no units during a run. */
export const longWindow = "60 days";

export const allOf = (name: string): { path: string } => ({ path: `/${name}/*` });

/** A policy with one limit, which has its name. */
export const quotaOf = (name: string, limit: number): Quota[] => [{ name, limit }];

/** A charge of one unit by default. */
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
