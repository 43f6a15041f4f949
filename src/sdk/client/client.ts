/** A typed client of `/check`, over HTTP or over a service binding. It runs wherever there is `fetch`. */
import { createCaller, type Caller } from "./attempts.ts";
import { type Clock, systemClock } from "./clock.ts";
import { httpTransport } from "./http.ts";
import type {
  BatchAnswer,
  BatchInput,
  CheckAnswer,
  CheckInput,
  ForgetInput,
  LookInput,
  ReserveAnswer,
  ReserveInput,
  SettleAnswer,
  SettleInput,
} from "./messages.ts";
import { type ClientOptions, type HttpOptions, readOptions, type ServiceOptions } from "./options.ts";
import { serviceTransport } from "./service.ts";

/** The options of one call. */
export interface CallOptions {
  /**
   * Ends the call at once when it aborts, also while it waits. The call then throws the signal's reason.
   * @default none
   */
  readonly signal?: AbortSignal | undefined;
}

/**
 * The calls of `/check`. Each throws a `HeadgateError` when there is no answer. A denial is an answer: `allowed` is false.
 */
export interface ServiceClient {
  /** Charges the cost if the limits allow it. */
  check(input: CheckInput, options?: CallOptions): Promise<CheckAnswer>;
  /** Returns what `check` would return, and charges nothing. */
  look(input: LookInput, options?: CallOptions): Promise<CheckAnswer>;
  /** Resets a key under one policy. */
  forget(input: ForgetInput, options?: CallOptions): Promise<void>;
  /** Charges a cost that `settle` can correct within `ttlMs`. */
  reserve(input: ReserveInput, options?: CallOptions): Promise<ReserveAnswer>;
  /** Corrects a reservation to its actual cost. */
  settle(input: SettleInput, options?: CallOptions): Promise<SettleAnswer>;
}

/** The calls of a client over HTTP. */
export interface Client extends ServiceClient {
  /** Makes up to 100 checks, which are independent. */
  batch(input: BatchInput, options?: CallOptions): Promise<BatchAnswer>;
}

/**
 * Returns a client over HTTP, or over a service binding.
 * @throws TypeError that lists every invalid option
 */
export function createClient(options: HttpOptions): Client;
export function createClient(options: ServiceOptions): ServiceClient;
export function createClient(options: ClientOptions): ServiceClient {
  return createClientAt(systemClock, Math.random, options);
}

/** Returns a client that uses the given clock and random numbers. */
export function createClientAt(clock: Clock, random: () => number, options: ClientOptions): ServiceClient {
  const valid = readOptions(options);
  const settings = { ...valid, clock, random };
  return "service" in valid
    ? serviceClient(createCaller({ ...settings, transport: serviceTransport(valid.service) }))
    : clientBy(createCaller({ ...settings, transport: httpTransport(valid, clock) }));
}

export const clientBy = (call: Caller): Client => ({
  ...serviceClient(call),
  batch: async (input, { signal } = {}) =>
    call({ operation: "batch", input, isIdempotent: input.checks.every(isFree) }, signal),
});

const serviceClient = (call: Caller): ServiceClient => ({
  check: async (input, { signal } = {}) => call({ operation: "check", input, isIdempotent: isFree(input) }, signal),
  look: (input, { signal } = {}) => call({ operation: "look", input, isIdempotent: true }, signal),
  forget: (input, { signal } = {}) => call({ operation: "forget", input, isIdempotent: true }, signal),
  reserve: (input, { signal } = {}) => call({ operation: "reserve", input, isIdempotent: false }, signal),
  settle: async ({ id, cost }, { signal } = {}) =>
    id === null ? { settled: false } : call({ operation: "settle", input: { id, cost }, isIdempotent: true }, signal),
});

/** A cost of 0 charges nothing. */
const isFree = ({ cost }: CheckInput): boolean => cost === 0;
