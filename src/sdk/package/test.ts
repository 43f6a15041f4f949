/** `headgate/test`: a limiter in memory with a virtual clock, for the tests of Workers that use Headgate. */
export type { ObjectFault } from "../testing/memory-objects.ts";
export type { TestNamespace, TestObjectId } from "../testing/memory-objects.ts";
export { createTestLimiter, type TestEnv, type TestLimiter, type TestLimiterOptions } from "../testing/test-limiter.ts";
export type { TestPolicy, TestService } from "../testing/test-limiter.ts";
export type { TestClock } from "../testing/virtual-clock.ts";
