/** The receiver of docs/how-to/dashboards-and-alerts.md accepts what the control plane sends, and nothing else. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { alertSettings } from "../../src/policy/vars/admin.ts";
import { Alerts } from "../../src/control/object/alerts.ts";
import { Tally } from "../../src/control/object/statistics-rows.ts";
import { beat } from "../control/object/batches.ts";
import { MemorySql } from "../fakes/memory-sql.ts";
import { freePort } from "../system/checkout.ts";
import { killWithParent } from "../tools/workerd-process.ts";
import { pageBlock } from "./page-block.ts";

const folder = mkdtempSync(join(tmpdir(), "headgate-receiver-"));
const secret = Buffer.alloc(32, 7).toString("base64");
let url: string;
let printed = "";
let stop: () => Promise<void>;

beforeAll(async () => {
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  writeFileSync(join(folder, "receiver.ts"), pageBlock("how-to/dashboards-and-alerts", "ts"));
  const port = await freePort();
  url = `http://127.0.0.1:${port}/`;
  const child = spawn(process.execPath, ["receiver.ts"], {
    cwd: folder,
    env: { ...process.env, ALERT_SECRET: `whsec_${secret}`, PORT: String(port) },
    stdio: ["ignore", "pipe", "inherit"],
  });
  killWithParent(child);
  child.stdout.setEncoding("utf8").on("data", (text: string) => (printed += text));
  stop = async () => {
    child.kill();
    await once(child, "close");
  };
  await untilAnswered();
});

afterAll(async () => {
  await stop();
  rmSync(folder, { recursive: true, force: true });
});

/** Waits until the receiver has started. */
async function untilAnswered(): Promise<void> {
  for (;;) {
    try {
      // oxlint-disable-next-line no-await-in-loop
      await fetch(url, { method: "POST", body: "{}" });
      return;
    } catch {
      // The receiver is not listening yet.
    }
  }
}

/** Sends an alert as the control plane does, and returns the alerts that the receiver did not confirm. */
async function unconfirmed(ALERT_SECRET: string, times = 1): Promise<number> {
  const settings = alertSettings({ ALERT_WEBHOOK: url, ALERT_SECRET, ALERT_KEYS: "api" });
  if (settings === null) throw new Error("the settings are invalid");
  const nowMs = Date.now();
  const statuses: number[] = [];
  const repeated: typeof fetch = async (...request) => {
    const responses = await Promise.all(Array.from({ length: times }, () => fetch(...request)));
    statuses.push(...responses.map(({ status }) => status));
    return responses[0] ?? Response.error();
  };
  const alerts = new Alerts(settings, new MemorySql().sql, repeated);
  const passed = { policy: "api", key: "k".repeat(43), limit: "api", percent: 80 } as const;
  alerts.observe(beat([], { alerts: [passed] }), new Tally(), nowMs);
  await alerts.run(nowMs);
  expect(statuses).toHaveLength(times);
  return alerts.dueAtMs() === null ? 0 : 1;
}

it("the alert receiver prints a signed alert once, even if it is delivered twice", async () => {
  expect(await unconfirmed(secret, 2)).toBe(0);
  expect(printed).toBe(`Policy api: the key ${"k".repeat(16)} has used 80 % of the limit api.\n`);
});

it("the alert receiver refuses an alert with another secret's signature or without a signature", async () => {
  const before = printed;
  expect(await unconfirmed(Buffer.alloc(32, 8).toString("base64"))).toBe(1);
  const response = await fetch(url, { method: "POST", body: '{"text": "forged"}' });
  expect(response.status).toBe(401);
  expect(printed).toBe(before);
});
