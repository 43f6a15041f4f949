/** The variable `headgate` of a Hono context: the decisions on a request, and the settlement of its reservations. */
import type { ChargedRequest } from "../http/record-outcomes.ts";
import { StatedCosts } from "../http/proxy/stated-costs.ts";
import type { PolicyDecision } from "./options.ts";
import { checkedCost } from "./read-options.ts";

declare module "hono" {
  interface ContextVariableMap {
    headgate: RateLimitContext;
  }
}

/** The value of `c.get("headgate")` behind `rateLimit`. */
export interface RateLimitContext {
  /** The decisions on the request. One for each policy that has decided it, in the order of the middleware. */
  readonly decisions: readonly PolicyDecision[];
  /**
   * Corrects the cost of policies with `reserve: true`. A lower cost is refunded, a higher one is charged in full. It is
   * possible once for each policy, until the response has ended. `cost` is an integer from 0 to 1,000,000 for all of these
   * policies, or one for each by its name. The result is whether this call has settled the cost of any policy.
   * @param cost an integer from 0 to 1,000,000 for all of these policies, or one for each by its name
   * @returns whether the cost of at least one policy was settled by this call
   * @throws TypeError for other costs, for names of other policies, and if no policy of the request has `reserve`
   */
  readonly settle: (cost: number | Readonly<Record<string, number>>) => Promise<boolean>;
}

/** The parts of a request's decision that one `rateLimit` contributes. */
export interface Contribution {
  /** Null before the request is decided, and for requests that no policy applies to. */
  readonly charged: ChargedRequest | null;
  /** The names of policies with `reserve`. */
  readonly reserved: ReadonlySet<string>;
  readonly statedCosts: StatedCosts;
}

const contributions = new WeakMap<RateLimitContext, readonly Contribution[]>();

/** @param earlier the variable, if another `rateLimit` has set it for the same request */
export function contextVariable(
  earlier: RateLimitContext | undefined,
  contribution: Contribution,
): RateLimitContext {
  const all = [...((earlier && contributions.get(earlier)) ?? []), contribution];
  const variable: RateLimitContext = {
    decisions: [...(earlier?.decisions ?? []), ...decisionsOf(contribution.charged)],
    settle: (cost) => settle(all, cost),
  };
  contributions.set(variable, all);
  return variable;
}

const decisionsOf = (charged: ChargedRequest | null): readonly PolicyDecision[] =>
  (charged?.admission.outcomes ?? []).flatMap((outcome) =>
    "decision" in outcome ? [{ policy: outcome.policy.name, ...outcome.decision }] : [],
  );

async function settle(
  all: readonly Contribution[],
  cost: number | Readonly<Record<string, number>>,
): Promise<boolean> {
  const reserved = all.flatMap((contribution) =>
    [...contribution.reserved].map((policy) => ({ policy, ...contribution })),
  );
  if (reserved.length === 0) {
    throw new TypeError("settle: no policy of this request has reserve: true");
  }
  const costs =
    typeof cost === "object" && cost !== null
      ? Object.entries(cost)
      : [...new Set(reserved.map(({ policy }) => policy))].map((policy) => [policy, cost] as const);
  const statements = costs.flatMap(([policy, units]) => {
    // A limiter that applies twice to a request has two reservations.
    const places = reserved.filter((each) => each.policy === policy);
    if (places.length === 0) {
      const names = [...new Set(reserved.map((each) => `"${each.policy}"`))].join(", ");
      throw new TypeError(
        `settle: "${policy}" is not a policy with reserve: true; expected ${names}`,
      );
    }
    const checked = checkedCost(units, "settle got the cost");
    return places.map(
      ({ statedCosts }) =>
        () =>
          statedCosts.state(policy, checked),
    );
  });
  const settled = await Promise.all(statements.map((state) => state()));
  return settled.includes(true);
}
