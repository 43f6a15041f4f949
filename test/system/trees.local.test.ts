/** Three levels under 200 connections, on workerd itself: what is admitted and what remains agree at every level. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startWorkerd } from "../tools/workerd.ts";

const settings = { strategy: "sliding-log", timeout: "10s", onError: "closed" };
const levels = [
  { name: "org", key: "header:x-org", limits: "800/hour", ...settings },
  { name: "team", within: "org", key: "header:x-team", limits: "280/hour", strategy: "sliding-window-counter" },
  { name: "user", within: "team", key: "header:x-user", limits: "60/hour", strategy: "fixed-window" },
];
const most = { org: 800, team: 280, user: 60 };

const token = "the-tests-token";
const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };

const folder = mkdtempSync(join(tmpdir(), "headgate-trees-"));
let workerd: Awaited<ReturnType<typeof startWorkerd>>;
beforeAll(async () => {
  workerd = await startWorkerd(folder, { POLICIES: levels, CHECK_TOKENS: token });
});
afterAll(async () => {
  await workerd.close();
  rmSync(folder, { recursive: true });
});

interface Answer {
  readonly allowed: boolean;
  readonly violated: readonly string[];
  readonly limits: readonly { readonly name: string; readonly remaining: number }[];
}

async function check(key: readonly string[], cost: number, isLook = false): Promise<Answer> {
  const query = key.map((text) => `key=${text}`).join("&");
  const response = isLook
    ? await fetch(new URL(`/check?policy=user&${query}`, workerd.url), { headers })
    : await fetch(new URL("/check", workerd.url), {
        method: "POST",
        headers,
        body: JSON.stringify({ policy: "user", key, cost }),
      });
  return response.json<Answer>();
}

it("no level admits a unit too many, none is charged without the others, and no denial would have fitted at the end", async () => {
  const requests = Array.from({ length: 1_200 }, (_, index) => ({
    key: [`org${index % 2}`, `team${index % 3}`, `user${index % 5}`],
    // Uneven, so that users, a team and an organisation reach their limits one after the other.
    cost: index % 5 === 0 ? 6 : 1 + (index % 2) + (index % 3 === 0 ? 1 : 0),
  }));
  const waiting = [...requests];
  const admitted = new Map<string, number>();
  const denied: { readonly key: readonly string[]; readonly cost: number; readonly violated: readonly string[] }[] = [];
  const names = (key: readonly string[]) => [key.slice(0, 1), key.slice(0, 2), key].map((parts) => parts.join(" "));
  const connection = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const { key, cost } = next;
      // oxlint-disable-next-line no-await-in-loop
      const { allowed, violated } = await check(key, cost);
      if (allowed) for (const name of names(key)) admitted.set(name, (admitted.get(name) ?? 0) + cost);
      else denied.push({ key, cost, violated });
    }
  };
  await Promise.all(Array.from({ length: 200 }, connection));

  const left = new Map<string, Answer["limits"]>();
  for (const { key } of requests) {
    const name = key.join(" ");
    // oxlint-disable-next-line no-await-in-loop
    if (!left.has(name)) left.set(name, (await check(key, 0, true)).limits);
  }
  for (const [name, limits] of left) {
    const used = names(name.split(" ")).map((each) => admitted.get(each) ?? 0);
    expect(limits.map(({ remaining }) => remaining)).toEqual(
      [most.org, most.team, most.user].map((limit, index) => limit - (used[index] ?? 0)),
    );
  }
  expect(denied.length).toBeGreaterThan(100);
  const reasons = new Set(denied.flatMap(({ violated }) => violated));
  expect(reasons).toEqual(new Set(["org", "team", "user"]));
  for (const { key, cost, violated } of denied) {
    const limits = left.get(key.join(" ")) ?? [];
    expect(violated.length).toBeGreaterThan(0);
    for (const name of violated) expect(limits.find((each) => each.name === name)?.remaining).toBeLessThan(cost);
  }
});
