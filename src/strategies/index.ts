/** The pure rate limiting engine: limits, strategies, and the meter that decides them. */
export {
  changesByDenial,
  compiledLimit,
  defaultStrategy,
  holdsSlots,
  internedLimits,
  mostStoredBytesOf,
  provisionalTtlMs,
  strategies,
  strategyNames,
  windowMsAt,
} from "./compiled-limit.ts";
export type { UsageTerms, UsageBreakdown } from "./usage.ts";
export { limitSentence, limitTotal, spanText, waitText } from "./usage.ts";
export { isCount } from "./integers.ts";
export { isBoundByDelay, isQueue, withMaxDelay } from "./bucket-strategies.ts";
export {
  acceptedName,
  acceptedStrategy,
  type LimitDefaults,
  limitFields,
  type LimitInput,
  type ReportAt,
  namePattern,
  parseLimits,
  readLimits,
  writtenLimit,
  writtenLimits,
} from "./limits.ts";
export { type Bounds, boundedDecision, type SharedPart } from "./bounded-decision.ts";
export { createMeter, LimitsMeter, type Meter, meterUnder } from "./meter.ts";
export { longestWaitMs } from "./metered-limit.ts";
export {
  acceptedDuration,
  acceptedNotation,
  formatDuration,
  formatWindow,
  parseDuration,
  writtenDuration,
} from "./notation.ts";
export { longestTtlMs, mostReserved, shortestTtlMs } from "./open-reservations.ts";
export { acceptedWeight, greatestWeight, type Guarantee, isWeight, openedAtMs, shareProblem } from "./shared-limit.ts";
export { type Room, Shares } from "./shares.ts";
export { attachSegments, detachSegments } from "./snapshot.ts";
export type { Decision, Limit, LimitDecision, Strategy } from "./strategy.ts";
export { createTree, type Tree } from "./tree.ts";
export type { LevelDecision, TreeDecision, TreeRequest, TreeSpend } from "./tree-request.ts";
export { shareOf, type TreeClass, type TreeLevel } from "./tree-levels.ts";
export type { TreeRow } from "./tree-nodes.ts";
export { type ConfigProblem, ConfigProblems, describeProblem } from "../validation/problems.ts";
