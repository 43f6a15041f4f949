/** A dry run under `/check` leaves no ban behind. */
import { expect, it } from "vitest";
import { headgate } from "../harness.ts";

it("a key that a dry run denied under /check is not banned when the policy is enforced", async () => {
  const policy = { name: "p", limits: "1/hour", strategy: "sliding-log", ban: "1h" };
  const KEY_SECRET = crypto.randomUUID();
  const dry = headgate({ KEY_SECRET, POLICIES: [{ ...policy, dryRun: true }] });
  const enforced = headgate({ KEY_SECRET, POLICIES: [policy] });
  const check = async (gate: typeof dry): Promise<unknown> =>
    (await gate.check("POST", "/check", { key: "203.0.113.7" })).json();
  await check(dry);
  expect(await check(dry)).toMatchObject({ allowed: true, violated: ["p"], bannedForMs: 0 });
  const look = await enforced.check("GET", "/check?key=203.0.113.7&cost=0");
  expect(await look.json()).toMatchObject({ bannedForMs: 0, limits: [{ remaining: 0 }] });
  // The first denial of the enforced policy begins its ban.
  expect(await check(enforced)).toMatchObject({ allowed: false, bannedForMs: 3_600_000 });
});
