/** Alerts: what raises them, what their webhook requests contain, and when they are sent again. */
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it, vi } from "vitest";
import { alertSettings } from "../../../src/policy/vars/admin.ts";
import { Scheduler } from "../../../src/control/object/scheduler.ts";
import { Observers } from "../../../src/control/object/observers.ts";
import type { BeatCall, KeyAlert, PolicyCounts } from "../../../src/control/protocol.ts";
import { MemorySql } from "../../fakes/memory-sql.ts";
import { beat, counts } from "./batches.ts";

const startMs = Date.UTC(2026, 10, 22, 10);
const secret = Buffer.from("0123456789abcdef0123456789abcdef");
const partitionKey = "3q2-7wAAexampleexampleexampleexampleexampl1";

afterEach(() => vi.restoreAllMocks());

interface Sent {
  readonly atMs: number;
  readonly url: string;
  readonly headers: Headers;
  readonly body: string;
  readonly json: { text: string; type: string; timestamp: string; data: Record<string, unknown> };
}

/** A control plane with alerts. Their receiver answers with `status`. */
class World {
  readonly sent: Sent[] = [];
  nowMs = startMs;
  status = 200;
  #seq = 0;
  #generation = 0;
  #work: Promise<unknown>[] = [];
  readonly storage = new MemorySql();
  readonly #variables: Record<string, string>;
  intake!: Observers;
  scheduler!: Scheduler;

  constructor(variables: Record<string, string> = {}) {
    this.#variables = {
      ALERT_WEBHOOK: "https://hooks.example.com/a",
      ALERT_SECRET: secret.toString("base64"),
      ALERT_KEYS: "api",
      ...variables,
    };
    this.restart();
  }

  /** Crashes the object, which loses its memory. */
  restart(): void {
    const generation = ++this.#generation;
    const settings = {
      alerts: alertSettings(this.#variables),
      dataset: null,
      sockets: { sockets: () => [], accept: () => new Response() },
      waitUntil: (work: Promise<unknown>) => void this.#work.push(work),
      // Requests that the object made before a crash never complete.
      fetch: ((...request) =>
        generation === this.#generation ? this.#receive(...request) : new Promise(() => undefined)) as typeof fetch,
    };
    this.intake = new Observers(this.storage, settings, this.nowMs);
    const clock = { now: () => this.nowMs, after: () => () => undefined };
    this.scheduler = new Scheduler(this.storage, clock, this.intake.tasks);
  }

  readonly #receive = async (url: unknown, init: RequestInit = {}): Promise<Response> => {
    const body = init.body as string;
    this.sent.push({
      atMs: this.nowMs,
      url: url as string,
      headers: new Headers(init.headers),
      body,
      json: JSON.parse(body) as Sent["json"],
    });
    if (this.status === 0) throw new TypeError("connection refused");
    return new Response(null, { status: this.status });
  };

  async beat(outcomes: PolicyCounts["outcomes"], others: Partial<BeatCall> = {}): Promise<void> {
    const policies = { api: counts({ outcomes }) };
    const batches = [{ seq: ++this.#seq, agoMs: 0, policies, originFailures: 0 }];
    this.intake.recordBeat(beat(batches, others), this.nowMs);
    await Promise.all(this.#work.splice(0));
    await this.scheduler.ensure();
  }

  /** Lets time pass and runs the alarms that are due. */
  async pass(forMs: number): Promise<void> {
    const untilMs = this.nowMs + forMs;
    for (;;) {
      const { alarmAtMs } = this.storage;
      if (alarmAtMs === null || alarmAtMs > untilMs) break;
      this.nowMs = alarmAtMs;
      this.storage.alarmAtMs = null;
      await this.scheduler.alarm();
    }
    this.nowMs = untilMs;
  }

  get types(): string[] {
    return this.sent.map(({ json }) => json.type);
  }
}

const keyAlert = (percent: KeyAlert["percent"], key = partitionKey): KeyAlert => ({
  policy: "api",
  key,
  limit: "api-day",
  percent,
});

describe("denials", () => {
  it("a policy raises an alert when its share of denials passes the threshold", async () => {
    const world = new World();
    await world.beat({ allowed: 80, denied: 20 });
    expect(world.sent).toEqual([]);
    await world.pass(5_000);
    await world.beat({ denied: 2, banned: 1, blocked: 2 });
    expect(world.types).toEqual(["denied-share"]);
    expect(world.sent[0]?.json).toMatchObject({
      text: "Policy api: 23.8 % of 105 requests were denied within the last two minutes, more than 20 %.",
      data: { policy: "api", denied: 25, decisions: 105, threshold: 0.2 },
    });
  });

  it("denials raise no alert among fewer than 20 decisions, in a dry run, or without the webhook", async () => {
    const world = new World();
    await world.beat({ denied: 19 });
    await world.beat({ allowed: 100, "dry-run-denied": 500 });
    const unset = new World({ ALERT_WEBHOOK: "" });
    await unset.beat({ denied: 500 });
    expect([...world.sent, ...unset.sent]).toEqual([]);
  });

  it("a high share of denials raises one alert while it lasts, and a new one when it returns", async () => {
    const world = new World();
    for (let second = 0; second < 300; second += 5) {
      await world.beat({ allowed: 10, denied: 10 });
      await world.pass(5_000);
    }
    expect(world.types).toEqual(["denied-share"]);
    for (let second = 0; second < 300; second += 5) {
      await world.beat({ allowed: 10 });
      await world.pass(5_000);
    }
    world.restart();
    await world.beat({ allowed: 1, denied: 1_000 });
    expect(world.types).toEqual(["denied-share", "denied-share"]);
  });

  it("a share of denials that rises and falls repeatedly raises at most one alert a minute", async () => {
    const world = new World({ ALERT_DENIED_SHARE: "50%" });
    for (let second = 0; second < 120; second += 5) {
      // With every second beat, the share of the last two minutes exceeds 50 %.
      await world.beat(second % 10 === 0 ? { denied: 1_000 } : { allowed: 1_001 });
      await world.pass(5_000);
    }
    expect(world.sent.length).toBeLessThanOrEqual(2);
  });
});

describe("decisions by onError", () => {
  it("a policy raises an alert when decisions by onError begin, and no further alert while they last", async () => {
    const world = new World();
    for (let second = 0; second < 300; second += 5) {
      await world.beat({ allowed: 10, "fallback-open": 1 });
      await world.pass(5_000);
    }
    expect(world.types).toEqual(["fallbacks"]);
    expect(world.sent[0]?.json.data).toEqual({ policy: "api", fallbacks: 1, decisions: 11 });
  });
});

describe("a key that passes a percentage of its limit", () => {
  it("the alert of a key has its partition key, and its pseudonym in the text", async () => {
    const world = new World();
    await world.beat({}, { alerts: [keyAlert(80)] });
    expect(world.sent[0]?.json).toMatchObject({
      type: "key-limit",
      text: "Policy api: the key 3q2-7wAAexamplee has used 80 % of the limit api-day.",
      data: { policy: "api", key: partitionKey, limit: "api-day", percent: 80 },
    });
  });

  it("a key raises one alert a minute for each percentage, however many isolates report it", async () => {
    const world = new World();
    for (let second = 0; second < 60; second++) {
      await world.beat({}, { alerts: [keyAlert(80), keyAlert(90)] });
      await world.pass(1_000);
    }
    expect(world.types).toHaveLength(2);
    world.restart();
    await world.beat({}, { alerts: [keyAlert(80)] });
    expect(world.types).toHaveLength(3);
  });

  it("a key raises no alert when its policy is not in ALERT_KEYS", async () => {
    const world = new World({ ALERT_KEYS: "login" });
    await world.beat({}, { alerts: [keyAlert(100)] });
    expect(world.sent).toEqual([]);
  });

  it("at most 30 alerts are raised a minute, and the next alert states how many were omitted", async () => {
    const world = new World();
    const alerts = Array.from({ length: 100 }, (_, index) => keyAlert(100, `key ${index}`));
    await world.beat({}, { alerts });
    expect(world.sent).toHaveLength(30);
    await world.pass(61_000);
    await world.beat({}, { alerts: [keyAlert(100, "another")] });
    expect(world.sent.at(-1)?.json.data).toMatchObject({ key: "another", omitted: 70 });
  });
});

describe("the request", () => {
  it("an alert is signed as Standard Webhooks defines it", async () => {
    const world = new World();
    await world.beat({}, { alerts: [keyAlert(80)] });
    const [{ headers, body, url }] = world.sent as [Sent];
    const id = headers.get("webhook-id") ?? "";
    const timestamp = headers.get("webhook-timestamp") ?? "";
    const hmac = createHmac("sha256", secret).update(`${id}.${timestamp}.${body}`);
    expect(headers.get("webhook-signature")).toBe(`v1,${hmac.digest("base64")}`);
    expect(id).toMatch(/^msg_[0-9a-f]{32}$/);
    expect([timestamp, url]).toEqual([String(startMs / 1_000), "https://hooks.example.com/a"]);
    expect(headers.get("content-type")).toBe("application/json");
  });

  it("an alert has no signature without ALERT_SECRET", async () => {
    const world = new World({ ALERT_SECRET: "" });
    await world.beat({}, { alerts: [keyAlert(80)] });
    expect(world.sent[0]?.headers.has("webhook-signature")).toBe(false);
  });

  it("a real receiver gets an alert and verifies its signature", async () => {
    const received: { request: IncomingMessage; body: string }[] = [];
    const server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("end", () => {
        received.push({ request, body: Buffer.concat(chunks).toString() });
        response.writeHead(204).end();
      });
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const work: Promise<unknown>[] = [];
    const intake = new Observers(
      new MemorySql(),
      {
        alerts: alertSettings({
          ALERT_WEBHOOK: `http://127.0.0.1:${port}/hook`,
          ALERT_SECRET: `whsec_${secret.toString("base64")}`,
          ALERT_KEYS: "api",
        }),
        dataset: null,
        sockets: { sockets: () => [], accept: () => new Response() },
        waitUntil: (each) => void work.push(each),
      },
      startMs,
    );
    intake.recordBeat(beat([], { alerts: [keyAlert(90)] }), startMs);
    await Promise.all(work);
    server.close();
    const [{ request, body }] = received as [(typeof received)[0]];
    const { "webhook-id": id, "webhook-timestamp": timestamp } = request.headers;
    const signed = `${String(id)}.${String(timestamp)}.${body}`;
    const hmac = createHmac("sha256", secret).update(signed).digest("base64");
    expect(request.headers["webhook-signature"]).toBe(`v1,${hmac}`);
    expect([request.method, request.url, received.length]).toEqual(["POST", "/hook", 1]);
    expect(intake.tasks[1]?.dueAtMs()).toBeNull();
  });
});

describe("a receiver that does not confirm", () => {
  it.for([0, 302, 404, 500])("a receiver that answers %d gets five attempts within 22 minutes", async (status) => {
    const error = vi.spyOn(console, "error").mockImplementation(() => undefined);
    const world = new World();
    world.status = status;
    await world.beat({}, { alerts: [keyAlert(80)] });
    await world.pass(3_600_000);
    const attempts = world.sent.map(({ atMs }) => (atMs - startMs) / 1_000);
    expect(attempts).toEqual([0, 10, 70, 370, 1_270]);
    expect(new Set(world.sent.map(({ headers }) => headers.get("webhook-id"))).size).toBe(1);
    expect(error).toHaveBeenCalledOnce();
    expect(error).toHaveBeenCalledWith(expect.stringContaining('"alert-undelivered"'));
    expect(error).toHaveBeenCalledWith(expect.not.stringContaining(partitionKey.slice(0, 16)));
  });

  it("an alert is sent again after a restart of the object, signed with the time of the attempt", async () => {
    const world = new World();
    world.status = 503;
    await world.beat({}, { alerts: [keyAlert(80)] });
    world.restart();
    world.status = 200;
    await world.pass(3_600_000);
    const [first, second] = world.sent as [Sent, Sent];
    expect(world.sent).toHaveLength(2);
    expect(second.body).toBe(first.body);
    expect(second.headers.get("webhook-timestamp")).toBe(String(startMs / 1_000 + 10));
  });

  it("an alert whose first attempt was lost in a crash of the object is sent again", async () => {
    const world = new World();
    world.intake.recordBeat(beat([], { alerts: [keyAlert(80)] }), startMs);
    await world.scheduler.ensure();
    world.restart();
    await world.pass(3_600_000);
    expect(world.sent.map(({ atMs }) => atMs - startMs)).toEqual([15_000]);
  });

  it.each(["{", "null", "{}", "[]"])("the stored alert %s is skipped", async (body) => {
    const world = new World();
    world.storage.sql.exec("INSERT INTO alerts VALUES ('damaged', ?)", body);
    world.restart();
    await world.beat({}, { alerts: [keyAlert(80)] });
    await world.pass(3_600_000);
    expect(world.types).toEqual(["key-limit"]);
  });

  it("an alert is not sent again while an attempt is under way", async () => {
    const world = new World();
    const call = beat([], { alerts: [keyAlert(80)] });
    world.intake.recordBeat(call, startMs);
    world.intake.recordBeat(call, startMs + 1);
    await world.beat({});
    expect(world.sent).toHaveLength(1);
  });
});

it("a failure of the storage of alerts does not fail the beat", async () => {
  const error = vi.spyOn(console, "error").mockImplementation(() => undefined);
  const world = new World();
  world.storage.before = (query) => {
    if (query.includes("INTO alerts")) throw new Error("the storage is full");
  };
  await world.beat({ allowed: 5 }, { alerts: [keyAlert(80)] });
  expect(world.intake.statistics.totals(startMs).of("api").outcomes).toEqual({ allowed: 5 });
  expect(error).toHaveBeenCalledWith(expect.stringContaining("control-plane-failed"));
});

it("rows of alerts whose conditions no longer hold are deleted after an hour", async () => {
  const world = new World();
  await world.beat({}, { alerts: [keyAlert(80)] });
  await world.pass(3_600_001);
  await world.beat({}, { alerts: [keyAlert(90)] });
  expect(world.storage.sql.exec("SELECT * FROM alerts").toArray()).toHaveLength(1);
});
