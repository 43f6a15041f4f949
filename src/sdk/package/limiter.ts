/** `headgate/limiter`: limits keys in a Worker without Hono: a queue consumer, a scheduled job, a WebSocket or plain `fetch`. */
export { createLimiter } from "../middleware/limiter.ts";
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
export type {
  LimitOptions,
  Limits,
  MatchOptions,
  OverrideOptions,
  PolicyDecision,
  PolicyOptions,
  StrategyName,
} from "../middleware/options.ts";
export type { Decision, LimitDecision } from "../../strategies/index.ts";
export { ConfigProblems, describeProblem, type ConfigProblem } from "../../validation/problems.ts";
