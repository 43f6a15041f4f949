/** A real Prometheus scrapes the metrics, a real receiver gets signed alerts, and a WebSocket gets the tail. */
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingHttpHeaders } from "node:http";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { TailMessage } from "../../src/control/protocol.ts";
import { killWithParent } from "../tools/workerd-process.ts";
import { checkout, freePort, type Run, started, stopped } from "./checkout.ts";

const hasPrometheus = spawnSync("prometheus", ["--version"]).status === 0;
const secret = Buffer.from("0123456789abcdef0123456789abcdef");

const { folder, configure, remove } = checkout();
const data = mkdtempSync(join(tmpdir(), "headgate-prometheus-"));
const received: { headers: IncomingHttpHeaders; body: string }[] = [];
const receiver = createServer((request, response) => {
  const chunks: string[] = [];
  request.setEncoding("utf8").on("data", (chunk: string) => chunks.push(chunk));
  request.on("end", () => {
    received.push({ headers: request.headers, body: chunks.join("") });
    response.writeHead(204).end();
  });
});
const entries: TailMessage["entries"][number][] = [];
let run: Run;
let port: number;
let token: string;
let socket: WebSocket;

const request = async (): Promise<number> => {
  const response = await fetch(`http://127.0.0.1:${port}/`);
  await response.body?.cancel();
  return response.status;
};

/** Polls until the result is not null. */
async function eventually<Value>(look: () => Promise<Value | null>, everyMs: number): Promise<Value> {
  for (;;) {
    const found = await look();
    if (found !== null) return found;
    await setTimeout(everyMs);
  }
}

beforeAll(async () => {
  port = await freePort();
  receiver.listen(0, "127.0.0.1");
  await once(receiver, "listening");
  const address = receiver.address();
  const receiverPort = typeof address === "object" && address !== null ? address.port : 0;
  configure([
    'LIMITS = "10/hour"',
    `ALERT_WEBHOOK = "http://127.0.0.1:${receiverPort}/alerts"`,
    `ALERT_SECRET = "whsec_${secret.toString("base64")}"`,
  ]);
  run = await started(folder, port);
  const variables = readFileSync(join(folder, ".dev.vars"), "utf8");
  token = /^ADMIN_TOKENS="(.+)"$/m.exec(variables)?.[1] ?? "";
  const response = await fetch(`http://127.0.0.1:${port}/_headgate/api/tail/ticket`, {
    method: "POST",
    headers: { Authorization: `Bearer ${token}` },
  });
  const { ticket } = await response.json<{ ticket: string }>();
  socket = new WebSocket(`ws://127.0.0.1:${port}/_headgate/api/tail?ticket=${ticket}`);
  socket.addEventListener("message", ({ data: text }) => {
    entries.push(...(JSON.parse(String(text)) as TailMessage).entries);
  });
  await once(socket, "open");
  await Promise.all(Array.from({ length: 60 }, request));
});

afterAll(async () => {
  socket.close();
  receiver.close();
  await stopped(run);
  remove();
  rmSync(data, { recursive: true, force: true });
});

it("the receiver gets one signed alert when most requests are denied", async () => {
  const { headers, body } = await eventually(async () => {
    await request();
    return received[0] ?? null;
  }, 1_100);
  const { "webhook-id": id, "webhook-timestamp": timestamp } = headers;
  const signed = `${String(id)}.${String(timestamp)}.${body}`;
  const hmac = createHmac("sha256", secret).update(signed).digest("base64");
  expect(headers["webhook-signature"]).toBe(`v1,${hmac}`);
  expect(JSON.parse(body)).toMatchObject({ type: "denied-share", data: { policy: "default" } });
  expect(received).toHaveLength(1);
});

it("the WebSocket of the tail gets denials with the partition key", async () => {
  const entry = await eventually(async () => {
    await request();
    return entries[0] ?? null;
  }, 1_100);
  expect(entry).toMatchObject({ policy: "default", outcome: "denied", cost: 1 });
  expect(entry.key).toMatch(/^[\w-]{43}$/);
});

it.skipIf(!hasPrometheus)("Prometheus scrapes the metrics and loads the alert rules", async () => {
  const prometheusPort = await freePort();
  const file = join(data, "prometheus.yml");
  const configuration = {
    global: { scrape_interval: "1s" },
    rule_files: [resolve("docs/operate/monitoring/alerts.yml")],
    scrape_configs: [
      {
        job_name: "headgate",
        metrics_path: "/_headgate/api/metrics",
        authorization: { credentials: token },
        static_configs: [{ targets: [`127.0.0.1:${port}`] }],
      },
    ],
  };
  // JSON is valid YAML.
  writeFileSync(file, JSON.stringify(configuration));
  const prometheus: ChildProcess = spawn(
    "prometheus",
    [
      `--config.file=${file}`,
      `--storage.tsdb.path=${join(data, "tsdb")}`,
      `--web.listen-address=127.0.0.1:${prometheusPort}`,
    ],
    { stdio: "ignore" },
  );
  killWithParent(prometheus);
  try {
    const read = async (path: string): Promise<unknown> => {
      try {
        const response = await fetch(`http://127.0.0.1:${prometheusPort}/api/v1/${path}`);
        return response.ok ? await response.json() : null;
      } catch {
        return null;
      }
    };
    const query = encodeURIComponent('headgate_decisions_total{outcome="denied"} > 40');
    // A beat after a gap of more than 8 s is stored at once, and metrics show stored counts.
    const found = await eventually(async () => {
      await request();
      for (let polls = 0; polls < 18; polls++) {
        const answer = (await read(`query?query=${query}`)) as {
          data: { result: { metric: Record<string, string> }[] };
        } | null;
        const [first] = answer?.data.result ?? [];
        if (first !== undefined) return first.metric;
        await setTimeout(500);
      }
      return null;
    }, 1);
    expect(found).toMatchObject({ policy: "default", job: "headgate" });
    expect(await read("targets")).toMatchObject({
      data: { activeTargets: [{ health: "up", lastError: "" }] },
    });
    expect(await read("rules")).toMatchObject({ data: { groups: [{ name: "headgate" }] } });
    const limit = encodeURIComponent("headgate_limit / headgate_limit_window_seconds");
    const ratios = `query?query=${limit}`;
    expect(await read(ratios)).toMatchObject({
      data: {
        result: [{ metric: { policy: "default" }, value: [expect.any(Number), "0.002777777777777778"] }],
      },
    });
  } finally {
    prometheus.kill();
    await once(prometheus, "close");
  }
});
