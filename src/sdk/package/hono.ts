/** `headgate/hono`: limits the routes of a Hono app in the user's own Worker. */
export { admin } from "../middleware/rate-limit.ts";
export type { RateLimitContext } from "../middleware/context-variable.ts";
export type {
  DenialResponse,
  LimitOptions,
  Limits,
  MatchOptions,
  OverrideOptions,
  PolicyDecision,
  PolicyOptions,
  StrategyName,
} from "../middleware/options.ts";
export type {
  LimiterCalls,
  LimiterAnswer,
  LimiterCheckInput,
  LimiterKeyInput,
  LimiterReserveAnswer,
  LimiterReserveInput,
  LimiterSettleAnswer,
  LimiterSettleInput,
} from "../middleware/limiter.ts";
export { rateLimit } from "../middleware/rate-limit.ts";
export type { RateLimitOptions } from "../middleware/rate-limit.ts";
export type { Decision, LimitDecision } from "../../strategies/index.ts";
export { ConfigProblems, describeProblem, type ConfigProblem } from "../../validation/problems.ts";
