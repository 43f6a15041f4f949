/** Workers outside the repository that do not use Hono. One test compiles them together. */

/** `wrangler types` declares the binding as a `Fetcher`. */
export const callingWorker = `import { createClient, HeadgateError } from "headgate/client";

interface Env {
  readonly HEADGATE: Fetcher;
}

export default {
  async fetch(request, env) {
    const limiter = createClient({ service: env.HEADGATE, timeoutMs: 30_000 });
    const key = request.headers.get("x-user") ?? "";
    try {
      const { allowed, retryAfterMs } = await limiter.check({ policy: "default", key });
      return Response.json({ allowed, retryAfterMs }, { status: allowed ? 200 : 429 });
    } catch (error) {
      if (!(error instanceof HeadgateError)) throw error;
      return Response.json(error.problem, { status: 500 });
    }
  },
} satisfies ExportedHandler<Env>;
`;

/** A Durable Object that limits its own calls. */
export const agentWorker = `import { DurableObject } from "cloudflare:workers";
import { createMeter, type Meter, parseLimits } from "headgate/strategies";

interface Env {
  readonly AGENT: DurableObjectNamespace<Agent>;
}

const limits = parseLimits("5/hour", { strategy: "sliding-log" });

export class Agent extends DurableObject<Env> {
  readonly #meter: Meter;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#meter = createMeter(limits, ctx.storage.kv.get("meter"));
  }

  /** Calls the model unless this would exceed the limit. */
  ask(question: string): { readonly answer: string } | { readonly retryAfterMs: number } {
    const { allowed, retryAfterMs } = this.#meter.consume(1, Date.now());
    if (!allowed) return { retryAfterMs: retryAfterMs ?? 0 };
    this.ctx.storage.kv.put("meter", this.#meter.snapshot());
    return { answer: question.toUpperCase() };
  }
}

export default {
  async fetch(request, env) {
    const agent = env.AGENT.getByName(new URL(request.url).pathname);
    const answer = await agent.ask("why");
    return Response.json(answer, { status: "answer" in answer ? 200 : 429 });
  },
} satisfies ExportedHandler<Env>;
`;
