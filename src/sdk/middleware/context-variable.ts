/** The variable `headgate` of a Hono context: the decisions on a request, and the settlement of its reservations. */
import type { DecidedRequest } from "../../http/record-outcomes.ts";
import { StatedCosts } from "../../http/proxy/in-flight.ts";
import type { Runtime } from "../../http/runtime.ts";
import type { Outcome, Spend } from "../../limiter/isolate/outcome.ts";
import type { PolicyDecision } from "./options.ts";
import { checkedCost } from "./read-options.ts";

declare module "hono" {
  interface ContextVariableMap {
    headgate: RateLimitContext;
  }
}

/** The value of `c.get("headgate")` behind `rateLimit`. */
export interface RateLimitContext {
  /**
   * Whether no policy denies the request, apart from dry runs. It is false in handlers behind a policy with
   * `onDeny: "continue"`, in functions `onDeny`, and in middleware outside of the limiter that denies.
   */
  readonly allowed: boolean;
  /**
   * The decisions on the request, one for each policy that decided it, in the order of the middleware. Decisions of dry
   * runs have `dryRun: true`. A `deny` list, a missing key and `onError: "closed"` deny without a decision.
   */
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
  /**
   * Resets the counters of this request's key, and ends its ban. Without `policy`, this applies to all policies of the
   * request. The result is whether all objects have confirmed it.
   * @param policy the name of a policy that has decided the request
   * @returns whether all objects have confirmed it
   * @throws TypeError for the name of another policy
   */
  readonly reset: (policy?: string) => Promise<boolean>;
}

/** The contribution of one `rateLimit` to the decision on a request. */
export interface Contribution {
  readonly runtime: Runtime;
  /** Whether this limiter denied the request and did not let it continue. Not every such denial has a decision. */
  readonly isDenied: boolean;
  /** Null before the request is decided, and for requests that no policy applies to. */
  readonly charged: DecidedRequest | null;
  /** The denials after which the request went on, because of `onDeny: "continue"`. */
  readonly continued: readonly DecidedRequest[];
  /** The outcomes of dry runs that were decided separately from the enforced policies. */
  readonly dryRuns: readonly Outcome[];
  /** The names of policies with `reserve`. */
  readonly reserved: ReadonlySet<string>;
  readonly statedCosts: StatedCosts;
}

const contributions = new WeakMap<RateLimitContext, readonly Contribution[]>();

/** @param earlier the variable that an earlier `rateLimit` has set for the same request */
export function contextVariable(earlier: RateLimitContext | undefined, contribution: Contribution): RateLimitContext {
  const all = [...((earlier && contributions.get(earlier)) ?? []), contribution];
  const decisions = [...(earlier?.decisions ?? []), ...decisionsOf(contribution)];
  const variable: RateLimitContext = {
    allowed: all.every(({ isDenied }) => !isDenied) && decisions.every(({ allowed, dryRun }) => allowed || dryRun),
    decisions,
    settle: (cost) => settle(all, cost),
    reset: (policy) => reset(all, policy),
  };
  contributions.set(variable, all);
  return variable;
}

/**
 * A policy whose denial was passed over by `onDeny: "continue"` takes part in no later charge, so each policy has one
 * decision.
 */
function decisionsOf({ charged, continued, dryRuns }: Contribution): readonly PolicyDecision[] {
  const passedOver = continued.flatMap(({ admission }) =>
    admission.outcomes.filter(({ policy, decision }) => decision !== null && !policy.isDryRun && !decision.allowed),
  );
  return [...passedOver, ...(charged?.admission.outcomes ?? []), ...dryRuns].flatMap(({ policy, decision }) =>
    decision === null ? [] : [{ policy: policy.name, dryRun: policy.isDryRun, ...decision }],
  );
}

const namesIn = (names: Iterable<string>): string => [...new Set(names)].map((name) => `"${name}"`).join(", ");

async function reset(all: readonly Contribution[], policy: string | undefined): Promise<boolean> {
  const spends = all.flatMap(({ runtime, charged, continued }) =>
    spendsOf(charged, continued).map((spend) => ({ ...spend, runtime })),
  );
  const meant = spends.filter((spend) => policy === undefined || spend.policy.name === policy);
  if (policy !== undefined && meant.length === 0) {
    const names = namesIn(spends.map((spend) => spend.policy.name));
    throw new TypeError(
      `reset: "${policy}" is not a policy that was charged for this request; expected ${names || "none, because no policy was"}`,
    );
  }
  const confirmed = await Promise.all(
    meant.map((spend) => {
      spend.runtime.bans.forget(spend.policy, spend.partitionKey);
      return spend.runtime.limiter.forget(spend.policy, spend.partitionKey);
    }),
  );
  return confirmed.every(Boolean);
}

/**
 * The spends of all policies of the request. The first denial has them all; the final charge lacks those of the
 * policies that denied.
 */
const spendsOf = (charged: DecidedRequest | null, [first]: readonly DecidedRequest[]): readonly Spend[] =>
  (first ?? charged)?.spends ?? [];

async function settle(all: readonly Contribution[], cost: number | Readonly<Record<string, number>>): Promise<boolean> {
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
    // If a limiter applies to a request twice, the request has two reservations under this policy.
    const places = reserved.filter((each) => each.policy === policy);
    if (places.length === 0) {
      const names = namesIn(reserved.map((each) => each.policy));
      throw new TypeError(`settle: "${policy}" is not a policy with reserve: true; expected ${names}`);
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
