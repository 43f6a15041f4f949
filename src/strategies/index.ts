/** The engine of Headgate, pure: limits, strategies and the meter that decides them. */
export type { Meter } from "./meter.ts";
export { longestWaitMs } from "./entry.ts";
export { integerFrom, isCount } from "./integers.ts";
export { attachSegments, detachSegments } from "./detached.ts";
export { isBoundByDelay, isQueue, withMaxDelay } from "./leaky-bucket.ts";
export { createMeter } from "./meter.ts";
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
export type { ConfigProblem } from "./problems.ts";
export {
  acceptedFields,
  asText,
  ConfigProblems,
  describeProblem,
  didYouMean,
  didYouMeanField,
  fields,
  isRecord,
  joinPath,
  nearestName,
  problemsOf,
  textOf,
} from "./problems.ts";
export {
  changesByDenial,
  defaultStrategy,
  mostStoredBytesOf,
  releases,
  strategies,
  windowMsAt,
} from "./registry.ts";
export type { Decision, Limit, LimitDecision, Stored, Strategy } from "./strategy.ts";
