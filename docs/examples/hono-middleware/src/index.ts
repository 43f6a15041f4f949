/** Limits for the routes of a Hono app: by address, by user, and by what a request costs. */
import { type Context, Hono } from "hono";
import { rateLimit } from "headgate/hono";

export { RateLimiter } from "headgate/object";

const app = new Hono();
const isHealthCheck = (c: Context): boolean => c.req.path === "/api/health";

// Two policies, decided together: a request that one of them denies is charged to neither.
app.use(
  "/api/*",
  rateLimit(
    { name: "address", limits: "100/minute; 20/second", key: "ip", skip: isHealthCheck },
    {
      name: "user",
      limits: "10/minute",
      strategy: "sliding-log",
      // In your own Worker, the user that your authentication has found: clients can invent a header.
      key: (c) => c.req.header("X-User"),
      onMissingKey: "skip",
      skip: isHealthCheck,
      cost: (c) => (c.req.path === "/api/report" ? 5 : 1),
      onDeny: (c, { cost, retryAfterMs }) =>
        c.text(`A cost of ${cost} fits in ${Math.ceil((retryAfterMs ?? 0) / 1000)} s.\n`, 429),
    },
  ),
);

app.get("/api/health", (c) => c.text("No limit applies here.\n"));
app.get("/api/report", (c) => c.text("A report for 5 units.\n"));
app.get("/api/orders", (c) => {
  const user = c.get("headgate").decisions.find(({ policy }) => policy === "user");
  return c.text(`${user?.limits[0]?.remaining ?? "all"} left\n`);
});

export default app;
