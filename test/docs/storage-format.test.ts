/** Compares docs/reference/storage-format.md with the rows that an object writes. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { alertSettings } from "../../src/policy/vars/admin.ts";
import { encodeSamples } from "../../src/control/sample-codec.ts";
import { Observers } from "../../src/control/object/observers.ts";
import { mostRowBytes, rowVersion } from "../../src/limiter/object/key-row.ts";
import type { KeyRule } from "../../src/limiter/protocol.ts";
import { decodeIntegers } from "../../src/strategies/log/varint.ts";
import { TestPlane } from "../control/object/test-plane.ts";
import { call, charge } from "../fakes/calls.ts";
import { MemoryStorage } from "../../src/sdk/testing/memory-storage.ts";
import { VirtualObject } from "../fakes/virtual-object.ts";
import { codesIn, readPage, rowsOf } from "./pages.ts";

const page = readFileSync("docs/reference/storage-format.md", "utf8");

/** The name and the value of the row that the page shows. */
function shownRow(): [name: string, value: unknown] {
  const [, name = "", value = ""] = /^```text figure\n(k .*)\n([\s\S]*?)^```$/m.exec(page) ?? [];
  return [name, JSON.parse(value)];
}

test("the example row in the storage format is the row that an object writes for the stated requests", async () => {
  const [name, value] = shownRow();
  const key = name.slice("k ".length);
  const object = new VirtualObject(new MemoryStorage(), 1_800_000_000_000);
  object.limiter.check(call(charge("100/minute", 3, "api"), key));
  await object.pass(1_000);
  const id = "5f2b09c4d1e84a7c9d03b6a1f7e2c85b";
  object.limiter.reserve({ ...call(charge("100/minute", 2, "api"), key), id, ttlMs: 60_000 });
  await object.pass(100);
  const rows = [...object.storage.rows].map(([row, text]) => [row, JSON.parse(text) as unknown]);
  expect(rows).toEqual([[name, value]]);
  // The name has the length of an HMAC-SHA-256 in base64url.
  expect(key).toHaveLength(43);
});

test("the example of runtime rules in the storage format equals the stored rows of a policy and a key with these rules", () => {
  const [, written = ""] = /## Runtime rules[\s\S]*?^```text figure\n([\s\S]*?)^```$/m.exec(page) ?? [];
  const [keyRules, policyRules] = JSON.parse(`[${written.replaceAll("]]]\n", "]]],")}]`) as unknown[][];
  const object = new VirtualObject(new MemoryStorage(), 1_800_000_000_000);
  const [[policy, epoch, version, , rules]] = keyRules as [[string, number, number, number, KeyRule[]]];
  object.limiter.setRules("k", policy, rules, { epoch, version });
  const [[, , policyVersion, text]] = policyRules as [[string, number, number, string]];
  const charged = {
    ...charge("100/minute", 0, policy),
    rules: { epoch, version: policyVersion, text },
  };
  object.limiter.look(call(charged));
  const row = JSON.parse(object.storage.rows.get("k k") ?? "[]") as unknown[];
  expect(row.slice(8)).toEqual([keyRules, policyRules]);
});

test("the table of integers in the storage format lists the data in the example row", () => {
  const [, data = ""] = /The string `(\w+)` holds these integers/.exec(page.replace(/\s+/g, " ")) ?? [];
  const stated = [...page.matchAll(/^\| +(\d+) \| (?:the|units|milliseconds|its) /gm)].map(([, integer]) =>
    Number(integer),
  );
  expect(JSON.stringify(shownRow()[1])).toContain(`"${data}"`);
  expect(stated).toEqual(decodeIntegers(data));
});

test("the example body of a sample in the storage format is the compact form of its two arrivals", () => {
  const [, figure = ""] = /### Samples of traffic[\s\S]*?^```text figure\n([\s\S]*?)^```$/m.exec(page) ?? [];
  const shown = figure
    .split("\n")
    .map((line) => line.split("  ")[0]?.replace("00 × 32", "00 ".repeat(32)) ?? "")
    .flatMap((line) => line.match(/[0-9a-f]{2}/g) ?? [])
    .map((byte) => Number.parseInt(byte, 16));
  const arrival = { kind: "arrival", ttlMs: 0, hasOtherLimits: false } as const;
  const atMs = 1_800_000_000_000;
  const events = [
    { ...arrival, atMs, cost: 1, outcome: "allowed" },
    { ...arrival, atMs: atMs + 250, cost: 3, outcome: "denied" },
  ] as const;
  expect(shown).toEqual([...encodeSamples(new Map([["A".repeat(43), events]]))]);
});

test("the page about the storage format states the version of rows and the largest row size", () => {
  expect(page).toContain(`version of the row: \`${rowVersion}\``);
  expect(page).toContain(`at most ${mostRowBytes.toLocaleString("en")} bytes`);
});

test("the page about the storage format lists every table of the control plane object", () => {
  const { storage } = new TestPlane();
  const settings = {
    alerts: alertSettings({ ALERT_WEBHOOK: "https://hooks.example.com/a" }),
    dataset: null,
    sockets: { sockets: () => [], accept: () => new Response() },
    waitUntil: () => undefined,
  };
  expect(() => new Observers(storage, settings, 0)).not.toThrow();
  const tables = storage.sql.exec<{ name: string }>("SELECT name FROM sqlite_master WHERE type = 'table'").toArray();
  const listed = rowsOf(readPage("docs/reference/storage-format.md"), "table");
  expect(new Set(listed.map(([name]) => codesIn(name)[0]))).toEqual(new Set(tables.map(({ name }) => name)));
});
