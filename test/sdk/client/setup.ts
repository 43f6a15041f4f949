/** A client of a faulty server, with a clock whose waits take no time. */
import { type Client, createClientAt } from "../../../src/sdk/client/client.ts";
import type { HttpOptions } from "../../../src/sdk/package/client.ts";
import { type Answer, type FaultyServer, startFaultyServer } from "./faulty-server.ts";
import { SkippingClock, timeoutMs } from "./skipping-clock.ts";

export interface Setup extends FaultyServer {
  readonly clock: SkippingClock;
  readonly limiter: Client;
}

/** @param random replaces the client's random number */
export async function setUp(
  answers: readonly Answer[],
  options: Partial<HttpOptions> = {},
  random = 0,
): Promise<Setup> {
  const server = await startFaultyServer(...answers);
  const clock = new SkippingClock();
  const given = { url: server.url, token: "t", timeoutMs, ...options };
  const limiter = createClientAt(clock, () => random, given) as Client;
  return { ...server, clock, limiter };
}

/** The error of a call; null if the call succeeds. */
export const thrownBy = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => null,
    (error: unknown) => error,
  );
