/** A limiter for the tests of users: objects in memory, which decide by a clock that the test advances. */
import { Faults, type ObjectFault } from "./faults.ts";
import { MemoryNamespace, MemoryObjects, type TestNamespace } from "./memory-objects.ts";
import { readTestOptions } from "./read-options.ts";
import { type TestPolicy, type TestService, testService } from "./test-service.ts";
import { type TestClock, VirtualClock } from "./virtual-clock.ts";

/** The options of `createTestLimiter`. */
export interface TestLimiterOptions {
  /**
   * The start of the clock. A text has a form such as `"2026-01-31T23:59:00Z"`, and a number is milliseconds since 1970.
   * @default 2026-01-01, UTC
   */
  readonly startAt?: Date | string | number;
  /**
   * The policies of `/check`. Without them, the limiter has no `client` and no `service`.
   * @default none
   */
  readonly policies?: readonly TestPolicy[];
}

/** The bindings and secrets that the limiter needs. */
export interface TestEnv {
  /** The binding of the objects. */
  readonly RATE_LIMITER: TestNamespace;
  /** A fixed text, since it protects nothing. */
  readonly KEY_SECRET: string;
}

/** A limiter in memory. */
export interface TestLimiter {
  /** Pass it as the environment of a Worker, with other variables as you need them. */
  readonly env: TestEnv;
  /** The time of the limiter and of its objects. */
  readonly clock: TestClock;
  /** Makes the objects fail until `recover` is called. Without an argument, every call fails at once. */
  readonly fail: (fault?: ObjectFault) => void;
  /** Makes the objects work again. After a fault, a Worker calls an object again when a second has passed. */
  readonly recover: () => void;
}

const keySecret = "headgate/test has a public key secret";

/**
 * Returns a limiter in memory with a virtual clock. Every limiter has objects of its own, without any state.
 * @throws ConfigProblems that lists every invalid option
 */
export function createTestLimiter(
  options: TestLimiterOptions & { readonly policies: readonly TestPolicy[] },
): TestLimiter & TestService;
export function createTestLimiter(options?: TestLimiterOptions): TestLimiter;
export function createTestLimiter(options: TestLimiterOptions = {}): TestLimiter & Partial<TestService> {
  const { startAtMs, policies } = readTestOptions(options);
  const clock = new VirtualClock(startAtMs);
  const faults = new Faults();
  const env = {
    RATE_LIMITER: new MemoryNamespace(new MemoryObjects(clock), faults.deliver),
    KEY_SECRET: keySecret,
  };
  return {
    env,
    clock,
    fail: (fault = "error") => faults.begin(fault),
    recover: () => faults.end(),
    ...(policies !== null && testService(policies, env)),
  };
}
