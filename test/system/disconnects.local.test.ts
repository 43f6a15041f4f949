/** Floods of clients that disconnect, and distant objects, with joined calls and with separate calls. */
import { mkdtempSync, rmSync } from "node:fs";
import { Agent } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { beforeAll, describe, expect, it } from "vitest";
import { randomFrom } from "../random.ts";
import {
  countsOf,
  flood,
  remainingOf,
  resetCounts,
  slots,
  spentByUsers,
  startFlooded,
  statusOf,
  tenantLimit,
} from "../tools/disconnects/flood.ts";
import type { Workerd } from "../tools/workerd.ts";
import { runNpm } from "./checkout.ts";

let workerd: Workerd;
/** Everything that workerd prints. */
let printed = "";
beforeAll(async () => {
  const folder = mkdtempSync(join(tmpdir(), "headgate-disconnects-"));
  workerd = await startFlooded(folder, (text) => void (printed += text));
  return async () => {
    await workerd.close();
    rmSync(folder, { recursive: true });
  };
});

describe("5,000 clients that disconnect in the middle of their requests", () => {
  it.each(["joined", "separate"] as const)(
    "with %s calls, objects decide every request of the clients that stay, and the charges equal the allowed checks minus the refunds",
    async (calls) => {
      const disconnects = 5_000;
      await resetCounts(workerd);
      const { statuses, unanswered } = await flood(workerd, {
        calls,
        name: calls,
        disconnects,
        seed: 20_261_122,
      });
      // The Worker continues requests whose clients have disconnected.
      const isAtRest = async (): Promise<boolean> => {
        const { denied, refunded, callsUnderWay } = await countsOf(workerd);
        const givenBack = (denied["user"] ?? 0) + (refunded["user"] ?? 0);
        return callsUnderWay === 0 && refunded["tenant"] === givenBack;
      };
      await expect.poll(isAtRest, { timeout: 20_000, interval: 100 }).toBe(true);
      await expect.poll(() => remainingOf(workerd, "slots", calls), { timeout: 20_000, interval: 100 }).toBe(slots);
      const counts = await countsOf(workerd);
      const { allowed, denied, refunded } = counts;
      const countOf = (counted: Readonly<Record<string, number>>, policy: string): number => counted[policy] ?? 0;

      // A request that is reset before the Worker has read it never starts. Each request that starts is charged.
      expect(counts.requests.length).toBeGreaterThan(statuses.length);
      expect(countOf(allowed, "tenant")).toBe(counts.requests.length);
      // A slow machine answers fewer of the clients that stay before the last of the others has left.
      expect(statuses.length).toBeGreaterThan(20);
      expect(statuses.filter((status) => status !== 200 && status !== 429)).toEqual([]);
      expect(unanswered).toBeGreaterThan(disconnects / 2);
      expect(counts.undecided).toBe(0);
      expect(printed).not.toContain("object-silent");
      // Each request that its tenant's policy allowed is also decided by its user's policy, even if the client
      // disconnected in between.
      expect(countOf(denied, "user")).toBeGreaterThan(0);
      expect(countOf(allowed, "user") + countOf(denied, "user")).toBe(allowed["tenant"]);
      const charged = countOf(allowed, "user") - countOf(refunded, "user");
      expect(tenantLimit - (await remainingOf(workerd, "tenant", calls))).toBe(charged);
      expect(await spentByUsers(workerd, calls)).toBe(charged);

      const checks = counts.calls.reduce((sum, call) => sum + call.checks, 0);
      expect(checks).toBe(2 * countOf(allowed, "tenant"));
      expect(counts.calls.length < checks).toBe(calls === "joined");
    },
  );
});

describe("an object 150 ms away", () => {
  it("with an object 150 ms away, checks of 32 clients share calls, and each check is in the first call after its arrival", async () => {
    const headers = { "X-Calls": "distant", "X-Tenant": "distant" };
    const agent = new Agent({ keepAlive: true });
    const send = (): Promise<number> => statusOf(workerd, { path: "/distant", headers }, agent);
    // The isolate measures the round trip with the first reply.
    await send();
    await resetCounts(workerd);
    const random = randomFrom(150);
    const requests = 8;
    const client = async (): Promise<number[]> => {
      const statuses: number[] = [];
      for (let request = 0; request < requests; request++) {
        // oxlint-disable-next-line no-await-in-loop
        await setTimeout(150 * random());
        // oxlint-disable-next-line no-await-in-loop
        statuses.push(await send());
      }
      return statuses;
    };
    const clients = Array.from({ length: 32 }, client);
    const statuses = (await Promise.all(clients)).flat();
    agent.destroy();
    expect(statuses.filter((status) => status !== 200)).toEqual([]);

    const counts = await countsOf(workerd);
    expect(counts.requests).toHaveLength(32 * requests);
    expect(counts.calls.length).toBeLessThan(counts.requests.length / 2);
    // A request never waits for a whole round trip before its call is sent.
    const mostUnderWay = Math.max(...counts.calls.map(({ underWay }) => underWay));
    expect(mostUnderWay).toBeGreaterThan(1);
    expect(mostUnderWay).toBeLessThan(9);
    // Checks on one key are sent once each, in the order of their arrival.
    const carriers = counts.calls.flatMap(({ checks }, index) => Array.from({ length: checks }, () => index));
    expect(carriers).toEqual(counts.requests.map(({ callsBefore }) => callsBefore));
  });
});

it("npm run bench -- disconnects prints the waits with joined and with separate calls, and their ratios", async () => {
  const options = ["--rounds", "1", "--disconnects", "100"];
  const run = runNpm(".", "run", "--silent", "bench", "--", "disconnects", ...options);
  expect(await run.ended).toBe(0);
  const waits = String.raw`p50 \S+(?: ms)? \(.*\), p99 \S+(?: ms)? \(.*\), max \S+(?: ms)? \(.*\)$`;
  const beginnings = ["joined   ", "separate "].map((calls) => `${calls} \\d+ requests in 1 turns`);
  expect(run.output().trimEnd().split("\n")).toEqual(
    [...beginnings, "joined ÷ separate"].map((beginning) =>
      expect.stringMatching(new RegExp(`^${beginning}: ${waits}`)),
    ),
  );
});
