/** `/check` in memory: the service binding of Headgate and the client of `/check`, over the objects of a test. */
import { createCaller } from "../client/attempts.ts";
import { type Client, clientBy } from "../client/client.ts";
import type { BatchAnswer } from "../client/messages.ts";
import { type HeadgateService, serviceTransport } from "../client/service.ts";
import { parseConfig } from "../../policy/vars/config.ts";
import {
  type CheckInput,
  type ForgetInput,
  readBatch,
  type ReserveInput,
  type SettleInput,
} from "../../http/check/input.ts";
import { decideBatch } from "../../http/check/operations.ts";
import { createService, perform } from "../../http/check/service.ts";
import { type Bindings, createRuntime, type Runtime } from "../../http/runtime.ts";
import { isFailure, problemDetails } from "../../http/wire/problems.ts";

/** The deadline of a call of the client, in virtual time. It is longer than the longest `timeout` of a policy. */
const timeoutMs = 60_000;

/** A policy with the fields of `POLICIES` in `[vars]`. */
export type TestPolicy = Readonly<Record<string, unknown>>;

/** A test has no request that must outlast its response. */
const waitUntil = (): void => undefined;

/** `/check` in memory, which a limiter with `policies` has. */
export interface TestService {
  /** In place of a service binding with `entrypoint = "Headgate"`. */
  readonly service: HeadgateService;
  /** In place of a client that `createClient` returns. It makes each call once. */
  readonly client: Client;
}

/** @throws ConfigProblems */
export function testService(
  policies: readonly TestPolicy[],
  env: Bindings & { readonly KEY_SECRET: string },
): TestService {
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
    check: cloned((input: CheckInput) => check(input, waitUntil)),
    look: cloned((input: CheckInput) => look(input, waitUntil)),
    forget: cloned((input: ForgetInput) => forget(input, waitUntil)),
    reserve: cloned((input: ReserveInput) => reserve(input, waitUntil)),
    settle: cloned((input: SettleInput) => settle(input, waitUntil)),
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
  <Input, Answer>(operation: (input: Input) => Promise<Answer>) =>
  async (input: unknown): Promise<Answer> =>
    // The operation reads any input, and reports what is wrong with it.
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    structuredClone(await operation(structuredClone(input) as Input));
