/**
 * A limiter for the tests of users: objects in memory, which decide by a clock that the test advances, and `/check` over
 * these objects.
 */
import { Faults, type ObjectFault, MemoryNamespace, MemoryObjects, type TestNamespace } from "./memory-objects.ts";
import { type TestClock, VirtualClock } from "./virtual-clock.ts";
import { type ConfigProblem, ConfigProblems } from "../../strategies/index.ts";
import { createCaller } from "../client/attempts.ts";
import { type Client, clientBy } from "../client/client.ts";
import type { BatchAnswer } from "../client/messages.ts";
import { type HeadgateService, serviceTransport } from "../client/service.ts";
import { parseConfig } from "../../policy/vars/config.ts";
import { readBatch } from "../../http/check/input.ts";
import { decideBatch } from "../../http/check/operations.ts";
import { createService, perform } from "../../http/check/service.ts";
import { type Bindings, createRuntime, type Runtime } from "../../http/runtime.ts";
import { isFailure, problemDetails } from "../../http/wire/problems.ts";
import type { WaitUntil } from "../../limiter/clock.ts";

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
  /** A fixed text, because it protects nothing in a test. */
  readonly KEY_SECRET: string;
}

/** A limiter in memory. */
export interface TestLimiter {
  /** Pass `env` as the environment of a Worker, with other variables as you need them. */
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

/** Earlier than any real test run, so that a token that is valid at the real time is not expired at the start. */
const defaultStartMs = Date.UTC(2026, 0, 1);

interface TestSettings {
  readonly startAtMs: number;
  readonly policies: readonly TestPolicy[] | null;
}

/** @throws ConfigProblems */
function readTestOptions(options: object): TestSettings {
  const given: Readonly<Record<string, unknown>> = Object(options);
  const { startAt = defaultStartMs, policies = null, ...others } = given;
  const problems: Omit<ConfigProblem, "variable">[] = [];
  const startAtMs = instantOf(startAt);
  if (startAtMs === null) {
    const accepted = 'a Date, a text such as "2026-01-31T23:59:00Z", or an integer of milliseconds since 1970';
    problems.push({ field: "startAt", value: startAt, accepted });
  }
  if (!isListOrNull(policies)) {
    problems.push({ field: "policies", value: policies, accepted: "a list of policies" });
  }
  for (const [field, value] of Object.entries(others)) {
    problems.push({ field, value, accepted: "one of the options startAt, policies" });
  }
  if (problems.length > 0 || startAtMs === null || !isListOrNull(policies)) {
    throw new ConfigProblems(problems.map((problem) => ({ variable: "createTestLimiter", ...problem })));
  }
  return { startAtMs, policies };
}

/** Only a first check: `parseConfig` reads the policies. */
const isListOrNull = (value: unknown): value is readonly TestPolicy[] | null => value === null || Array.isArray(value);

/** Null for a value that is no instant. */
function instantOf(value: unknown): number | null {
  const isWritten = typeof value === "string" || value instanceof Date;
  const ms = isWritten ? new Date(value).getTime() : value;
  return Number.isSafeInteger(ms) && Number(ms) >= 0 ? Number(ms) : null;
}

/** The deadline of the client's calls, in virtual time. It is longer than the longest `timeout` of a policy. */
const timeoutMs = 60_000;

/** A policy with the fields of `POLICIES` in `[vars]`. */
export type TestPolicy = Readonly<Record<string, unknown>>;

/** Work after the response need not be kept alive in a test. */
const waitUntil: WaitUntil = () => undefined;

/** `/check` in memory. Only a limiter with `policies` has it. */
export interface TestService {
  /** Use it in place of a service binding with `entrypoint = "Headgate"`. */
  readonly service: HeadgateService;
  /** Use it in place of a client from `createClient`. It makes each call only once. */
  readonly client: Client;
}

/** @throws ConfigProblems */
function testService(policies: readonly TestPolicy[], env: Bindings & { readonly KEY_SECRET: string }): TestService {
  const runtime = createRuntime(parseConfig({ KEY_SECRET: env.KEY_SECRET, POLICIES: policies }), env);
  const service = serviceOver(runtime);
  const call = createCaller({
    transport: serviceTransport(service),
    retries: 0,
    maxWaitMs: 0,
    timeoutMs,
    clock: runtime.clock,
    random: () => 0,
  });
  return { service, client: clientBy(call) };
}

type BatchService = HeadgateService & { batch(input: object): Promise<BatchAnswer> };

function serviceOver(runtime: Runtime): BatchService {
  const { check, look, forget, reserve, settle } = createService(runtime);
  return {
    check: cloned(check),
    look: cloned(look),
    forget: cloned(forget),
    reserve: cloned(reserve),
    settle: cloned(settle),
    batch: cloned((input: object) =>
      perform(readBatch, input, async ({ checks }) => {
        const answers = await decideBatch({ runtime, tenant: null, waitUntil }, checks);
        return {
          results: answers.map((answer) => (isFailure(answer) ? { problem: problemDetails(answer) } : answer)),
        };
      }),
    ),
  };
}

/** Inputs and answers are cloned, as a service binding does. */
const cloned =
  <Input, Answer>(operation: (input: Input, waitUntil: WaitUntil) => Promise<Answer>) =>
  async (input: unknown): Promise<Answer> =>
    // The operation reads any input, and reports what is wrong with it.
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    structuredClone(await operation(structuredClone(input) as Input, waitUntil));
