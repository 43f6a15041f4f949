/**
 * Floods of wrong admin tokens. Decisions are compared with those of a second workerd process, which receives an equal
 * flood of wrong tokens at `/check` at the same instants. Then both processes swap roles.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { setLimits } from "../tools/control-plane/admin-client.ts";
import { type Isolates, startIsolates } from "../tools/control-plane/isolates.ts";
import { latencyAt, Load, within } from "../tools/control-plane/lanes.ts";

const folder = mkdtempSync(join(tmpdir(), "headgate-flood-"));
let isolates: readonly [Isolates, Isolates];

const start = (name: string): Promise<Isolates> =>
  startIsolates(join(folder, name), {
    policies: [
      {
        name: "api",
        match: { path: "/traffic" },
        key: "header:x-key",
        limits: "1000000/hour",
        timeout: "5s",
        onError: "closed",
      },
    ],
    names: ["one"],
    isRemote: true,
  });

beforeAll(async () => {
  isolates = [await start("first"), await start("second")];
  for (const each of isolates) {
    // oxlint-disable-next-line no-await-in-loop
    await setLimits(each.url("one"), "api", "999999/hour");
  }
}, 120_000);
afterAll(async () => {
  for (const each of isolates) {
    // oxlint-disable-next-line no-await-in-loop
    await each.close();
  }
  rmSync(folder, { recursive: true });
});

let attempts = 0;

/** Each attempt has a new token, and almost every attempt a new address. */
async function attempt(url: URL, path: string): Promise<number> {
  attempts++;
  const address = `198.51.${attempts % 100}.${attempts % 250}`;
  const response = await fetch(new URL(path, url), {
    method: "POST",
    headers: {
      authorization: `Bearer wrong-${attempts}`,
      "cf-connecting-ip": address,
      "content-type": "application/json",
    },
    body: JSON.stringify({ policy: "api", key: "k", kind: "allow" }),
  });
  await response.arrayBuffer();
  return response.status;
}

it("wrong admin tokens cause no call to an object, even after an address has made too many attempts", async () => {
  const [first] = isolates;
  const url = first.url("one");
  const before = await first.calls();
  const statuses = new Set<number>();
  for (const path of ["/rules", "/keys/explain", "/policies", "/tail/ticket"]) {
    // oxlint-disable-next-line no-await-in-loop
    for (let count = 0; count < 50; count++) statuses.add(await attempt(url, `/_headgate/api${path}`));
  }
  const address = { authorization: "Bearer wrong", "cf-connecting-ip": "203.0.113.7" };
  for (let count = 0; count < 20; count++) {
    // oxlint-disable-next-line no-await-in-loop
    const response = await fetch(new URL("/_headgate/api/rules", url), { headers: address });
    statuses.add(response.status);
  }
  expect(statuses).toEqual(new Set([401, 429]));
  expect(await first.calls()).toEqual(before);
});

const phaseMs = 4_000;
const everyMs = 10;
const paths = ["/_headgate/api/rules", "/check"] as const;

it("a flood of wrong admin tokens slows decisions no more than an equal flood at /check", async () => {
  const [first, second] = isolates.map((each) => each.url("one")) as [URL, URL];
  const load = await Load.start([
    { name: "first", urls: [first] },
    { name: "second", urls: [second] },
  ]);
  let phases: number[] = [];
  try {
    const startedMs = load.elapsedMs;
    await flood([first, second]);
    const changedMs = load.elapsedMs;
    await flood([second, first]);
    phases = [startedMs, changedMs, load.elapsedMs];
  } finally {
    await load.end();
  }
  const [startedMs = 0, changedMs = 0, endedMs = 0] = phases;
  const during = (before: string, after: string) => [
    ...within(load.sent(before), startedMs, changedMs),
    ...within(load.sent(after), changedMs, endedMs),
  ];
  const [ofAdmin, ofCheck] = [during("first", "second"), during("second", "first")];
  expect([...ofAdmin, ...ofCheck].filter(({ status }) => status !== 200)).toEqual([]);
  const at = (quantile: number) => [latencyAt(quantile, ofAdmin), latencyAt(quantile, ofCheck)];
  console.log(JSON.stringify({ median: at(0.5), p95: at(0.95) }));
  const [[median = 0, usual = 0], [p95 = 0, usualP95 = 0]] = [at(0.5), at(0.95)];
  // The bounds leave room for a busy machine.
  expect(median).toBeLessThan(2 * usual + 10);
  expect(p95).toBeLessThan(3 * usualP95 + 100);
});

/**
 * Sends wrong tokens to both processes at an even rate: admin tokens to the first, tokens of `/check` to the second.
 */
async function flood(urls: readonly URL[]): Promise<void> {
  const startedMs = performance.now();
  const sent: Promise<number>[] = [];
  for (let tick = 0; performance.now() - startedMs < phaseMs; tick++) {
    for (const [index, path] of paths.entries()) sent.push(attempt(urls[index] as URL, path));
    // oxlint-disable-next-line no-await-in-loop
    await setTimeout(Math.max(0, (tick + 1) * everyMs - (performance.now() - startedMs)));
  }
  const statuses = await Promise.all(sent);
  expect(statuses.every((status) => status === 401 || status === 429)).toBe(true);
}
