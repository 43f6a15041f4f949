/**
 * Every spelling of a path that reaches a handler of a real origin is charged. The requests pass Headgate in workerd,
 * or nginx that calls Headgate. The origins are nginx and Express with their default routing.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { Connection } from "../fuzz/connection.ts";
import { startWorkerd } from "../workerd.ts";
import { nginx } from "../../system/gateway-process.ts";
import { handlerField, handlers, startExpress, startNginxOrigin } from "./origins.ts";
import { compositionsOf } from "../../system/path-transformations.ts";

const folder = mkdtempSync(join(tmpdir(), "headgate-spellings-"));
afterAll(() => rmSync(folder, { recursive: true }));

const token = "the-tests-token";
const limit = 1_000_000;
/** Each policy is keyed only by path, so that the test notices a spelling that gets a different key. */
const policies = handlers.map(({ name, pattern }) => ({
  name,
  match: { path: pattern },
  key: "path",
  limits: { limit, window: "10 days", strategy: "fixed-window" },
  objects: "sharded",
}));

const connections = 8;
const patienceMs = 30_000;

interface Reached {
  readonly handler: string;
  readonly charged: readonly string[];
  readonly sent: string;
}

/** Sends paths byte for byte. Returns the paths that reached a handler, and how often each policy was charged. */
async function sendAll(front: string, paths: readonly { names: string; path: string }[]) {
  const { hostname, port, host } = new URL(front);
  const reached: Reached[] = [];
  const charges = new Map<string, number>();
  const queue = [...paths];
  const lanes = Array.from({ length: connections }, async () => {
    const connection = new Connection({ hostname, port: Number(port) });
    for (let next = queue.pop(); next !== undefined; next = queue.pop()) {
      const head = `GET ${next.path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`;
      // oxlint-disable-next-line no-await-in-loop
      const { headers } = await connection.exchange(head, false, patienceMs);
      const named = (headers.get("ratelimit-policy") ?? "").matchAll(/"([a-z]+)"/g);
      const charged = [...named].map(([, name = ""]) => name);
      for (const name of charged) charges.set(name, (charges.get(name) ?? 0) + 1);
      const handler = headers.get(handlerField);
      if (handler !== undefined) {
        reached.push({ handler, charged, sent: `${next.names}: ${next.path}` });
      }
    }
    connection.close();
  });
  await Promise.all(lanes);
  return { reached, charges };
}

const compositions = handlers.flatMap(({ path }) => compositionsOf(path));

/** @param fewest the smallest number of requests that must have reached each handler */
function expectAllCharged(reached: readonly Reached[], fewest: number): void {
  const uncharged = reached.filter(({ handler, charged }) => !charged.includes(handler));
  expect(uncharged.map(({ sent }) => sent)).toEqual([]);
  for (const { name } of handlers) {
    const count = reached.filter(({ handler }) => handler === name).length;
    expect([name, count >= fewest, count]).toEqual([name, true, count]);
  }
}

describe.each([
  ["Express", startExpress, true],
  ["nginx", startNginxOrigin, nginx.isInstalled],
] as const)("every composition of two spellings, with %s as the origin", (_, start, isInstalled) => {
  it.skipIf(!isInstalled)(
    "every spelling of a path that reaches a handler is charged by Headgate to one key",
    async () => {
      const origin = await start();
      const variables = {
        ORIGIN: origin.url,
        CHECK_TOKENS: token,
        POLICIES: JSON.stringify(policies),
      };
      const headgate = await startWorkerd(folder, variables);
      try {
        const { reached, charges } = await sendAll(headgate.url.href, compositions);
        expectAllCharged(reached, 25);
        for (const { name, pattern } of handlers.slice(0, 2)) {
          const look = new URL(`/check?policy=${name}&key=${pattern}`, headgate.url);
          // oxlint-disable-next-line no-await-in-loop
          const response = await fetch(look, { headers: { Authorization: `Bearer ${token}` } });
          // oxlint-disable-next-line no-await-in-loop
          const { limits } = await response.json<{ limits: { remaining: number }[] }>();
          expect([name, limits[0]?.remaining]).toEqual([name, limit - (charges.get(name) ?? 0)]);
        }
      } finally {
        await headgate.close();
        await origin.close();
      }
    },
    120_000,
  );

  it.skipIf(!nginx.isInstalled)(
    "every spelling of a path that reaches a handler through nginx is charged by Headgate",
    async () => {
      const origin = await start();
      const variables = { CHECK_TOKENS: token, POLICIES: JSON.stringify(policies) };
      const headgate = await startWorkerd(folder, variables);
      const gateway = await nginx.start({ headgate: headgate.url, origin: origin.url, token });
      try {
        // nginx forwards the path as received, and Express decodes only a few characters in it.
        expectAllCharged((await sendAll(gateway.url, compositions)).reached, 5);
      } finally {
        await gateway.close();
        await headgate.close();
        await origin.close();
      }
    },
    120_000,
  );
});
