/** A login that counts wrong passwords: by address, with a ban, and by account. Correct ones cost nothing. */
import { type Context, Hono } from "hono";
import { rateLimit } from "headgate/hono";

export { RateLimiter } from "headgate/object";

/** Store hashes in your own Worker. */
const passwords = new Map([
  ["alice", "correct horse"],
  ["bob", "battery staple"],
]);

const field = async (c: Context, name: string): Promise<string> => {
  const { [name]: value } = await c.req.parseBody();
  return typeof value === "string" ? value : "";
};

const app = new Hono();

app.post(
  "/login",
  rateLimit(
    {
      name: "address",
      key: "ip",
      limits: "5/minute",
      strategy: "sliding-log",
      count: { status: ["401"] },
      ban: { after: 3, within: "10m", for: "1h" },
    },
    // Without a ban: an attacker must not lock the owner out for long.
    {
      name: "account",
      key: (c) => field(c, "account"),
      onMissingKey: "deny",
      limits: "3/minute",
      strategy: "sliding-log",
      count: { status: ["401"] },
    },
  ),
  async (c) => {
    const account = await field(c, "account");
    const isCorrect = passwords.get(account) === (await field(c, "password"));
    return isCorrect ? c.text(`Welcome, ${account}.\n`) : c.text("Wrong password.\n", 401);
  },
);

export default app;
