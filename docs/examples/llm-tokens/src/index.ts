/** A chat that streams. Its cost is reserved before the model answers, and corrected to the tokens that it sent. */
import { Hono } from "hono";
import { streamText } from "hono/streaming";
import { rateLimit } from "headgate/hono";

export { RateLimiter } from "headgate/object";

const maxTokens = 100;
const app = new Hono();

app.use(
  "/chat",
  rateLimit({
    name: "tokens",
    limits: "150/hour",
    strategy: "sliding-log",
    // In your own Worker, the user that your authentication has found: clients can invent a header.
    key: (c) => c.req.header("X-User"),
    onMissingKey: "deny",
    // The most that an answer costs. A cost of 0 reads the budget.
    cost: (c) => (c.req.method === "GET" ? 0 : maxTokens),
    reserve: true,
  }),
);

app.get("/chat", (c) => {
  const remaining = c.get("headgate").decisions[0]?.limits[0]?.remaining;
  return c.text(`${remaining} tokens left\n`);
});

app.post("/chat", async (c) => {
  const words = model(await c.req.text());
  return streamText(c, async (stream) => {
    let tokens = 0;
    try {
      for await (const word of words) {
        if (stream.aborted) break;
        tokens += 1;
        await stream.write(word);
      }
    } finally {
      await c.get("headgate").settle(tokens);
    }
    await stream.writeln("");
  });
});

/** A model without an account: it repeats the prompt, one word per token. */
async function* model(prompt: string): AsyncGenerator<string> {
  for (const word of prompt.split(/\s+/).slice(0, maxTokens)) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    yield `${word} `;
  }
}

export default app;
