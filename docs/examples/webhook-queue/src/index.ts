/** A queue of webhooks: at most 2 calls at once and 4 per second to each receiver, repeated until one succeeds. */
import { DurableObject } from "cloudflare:workers";
import { createMeter, parseLimits } from "headgate/strategies";
import { Hono } from "hono";

const ttlMs = 30_000;
const limits = parseLimits([{ limit: 2, window: "30s", strategy: "concurrency" }, "4/second"]);
type Webhook = { url: string; body: string; attempt: number };
const seen = { calls: 0, open: 0, mostAtOnce: 0 }; // by the receiver to try it with, which fails its first call

/** The webhooks of one receiver, in the order in which they are due. */
export class Receiver extends DurableObject {
  readonly #kv = this.ctx.storage.kv;
  readonly #meter = createMeter(limits, this.#kv.get("meter"));
  readonly #inFlight = new Map<string, Promise<void>>();

  add(webhook: Webhook, dueMs = Date.now()): void {
    this.#kv.put(`due:${dueMs}:${crypto.randomUUID()}`, webhook);
    this.alarm();
  }

  /** Starts the calls that fit. The next alarm is when another one fits, or when the slots of a crash are free again. */
  override alarm(): void {
    for (const [id, webhook] of this.#kv.list<Webhook>({ prefix: "due:" })) {
      if (this.#inFlight.has(id)) continue;
      const nowMs = Date.now();
      const dueInMs = Math.max(0, Number(id.split(":")[1]) - nowMs);
      const waitMs = dueInMs || this.#meter.reserve({ cost: 1, ttlMs }, nowMs).retryAfterMs;
      void this.ctx.storage.setAlarm(nowMs + (waitMs || ttlMs));
      if (waitMs !== 0) break;
      this.#inFlight.set(id, this.#call(id, webhook, this.#meter.seenMs));
    }
    this.#kv.put("meter", this.#meter.snapshot());
  }

  async #call(id: string, { url, body, attempt }: Webhook, spentAtMs: number): Promise<void> {
    const signal = AbortSignal.timeout(ttlMs / 2);
    const response = await fetch(url, { method: "POST", body, signal }).catch(() => null);
    this.#meter.settle({ cost: 1, actualCost: 1, ttlMs, spentAtMs }, Date.now());
    this.#inFlight.delete(id);
    this.#kv.delete(id);
    if (response?.ok) this.alarm();
    else this.add({ url, body, attempt: attempt + 1 }, Date.now() + 1000 * 2 ** attempt);
  }
}

export default new Hono<{ Bindings: { RECEIVERS: DurableObjectNamespace<Receiver> } }>()
  .post("/webhooks", async (c) => {
    const { host, href: url } = new URL(c.req.query("to") ?? "");
    await c.env.RECEIVERS.getByName(host).add({ url, body: await c.req.text(), attempt: 0 });
    return c.text("queued\n", 202);
  })
  .get("/receiver", (c) => c.json(seen))
  .post("/receiver", async (c) => {
    seen.mostAtOnce = Math.max(seen.mostAtOnce, (seen.open += 1));
    await scheduler.wait(300);
    seen.open -= 1;
    return c.body(null, (seen.calls += 1) === 1 ? 503 : 204);
  });
