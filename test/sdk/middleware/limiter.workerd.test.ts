/** A limiter without a route, with real Durable Objects and the handlers of a Worker. */
import {
  createExecutionContext,
  createMessageBatch,
  createScheduledController,
  getQueueResult,
  waitOnExecutionContext,
} from "cloudflare:test";
import { expect, it } from "vitest";
import { createLimiter } from "../../../src/sdk/package/limiter.ts";
import { bindings } from "./visitor.ts";

const log = { strategy: "sliding-log" } as const;

it("a queue consumer retries messages that the limits deny, after the wait of the denial", async () => {
  const env = bindings();
  const mails = createLimiter({ name: "batch", limits: "2/minute", ...log });
  const body = { to: "ann" };
  const messages = ["a", "b", "c"].map((id) => ({ id, timestamp: new Date(), attempts: 1, body }));
  const batch = createMessageBatch<{ to: string }>("mails", messages);
  const ctx = createExecutionContext();
  for (const message of batch.messages) {
    // oxlint-disable-next-line no-await-in-loop
    const { allowed, retryAfterMs } = await mails.check(env, { key: message.body.to });
    if (allowed) message.ack();
    else message.retry({ delaySeconds: Math.ceil((retryAfterMs ?? 0) / 1_000) });
  }
  const { explicitAcks, retryMessages } = await getQueueResult(batch, ctx);
  expect(explicitAcks).toEqual(["a", "b"]);
  expect(retryMessages).toMatchObject([{ msgId: "c" }]);
});

it("a scheduled job under a leased policy spends at most the limit", async () => {
  const env = bindings();
  const limiter = createLimiter({
    name: "leased-job",
    limits: "40/minute",
    consistency: "leased",
    ...log,
  });
  const ctx = createExecutionContext();
  let allowed = 0;
  const scheduled = async ({ scheduledTime }: ScheduledController): Promise<void> => {
    expect(scheduledTime).toBeGreaterThan(0);
    for (let count = 0; count < 60; count++) {
      // oxlint-disable-next-line no-await-in-loop
      if ((await limiter.check(env, { key: "job" })).allowed) allowed += 1;
    }
  };
  await scheduled(createScheduledController());
  await waitOnExecutionContext(ctx);
  expect(allowed).toBe(40);
});
