/** The engine of Headgate, pure: limits, strategies and the meter that decides them. */
export type { Meter } from "./meter.ts";
export { longestWaitMs } from "./metered-limit.ts";
export { isCount } from "./integers.ts";
export { attachSegments, detachSegments } from "./snapshot.ts";
export { isBoundByDelay, isQueue, withMaxDelay } from "./leaky-bucket.ts";
export { createMeter } from "./meter.ts";
export { longestTtlMs, shortestTtlMs } from "./open-reservations.ts";
export type { LimitDefaults, LimitInput } from "./limits.ts";
export {
  acceptedName,
  acceptedStrategy,
  limitFields,
  namePattern,
  parseLimits,
  readLimits,
} from "./limits.ts";
export {
  acceptedDuration,
  acceptedNotation,
  formatDuration,
  formatWindow,
  parseDuration,
} from "./notation.ts";
export type { ConfigProblem } from "../validation/problems.ts";
export { ConfigProblems, describeProblem } from "../validation/problems.ts";
export {
  changesByDenial,
  defaultStrategy,
  mostStoredBytesOf,
  holdsSlots,
  strategies,
  windowMsAt,
} from "./compiled-limit.ts";
export type { Decision, Limit, LimitDecision, StoredState, Strategy } from "./strategy.ts";
