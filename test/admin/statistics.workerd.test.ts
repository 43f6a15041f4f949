/** Statistics in the admin API. */
import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { batch, beat } from "../control/object/batches.ts";
import { arrival, sampleBatch } from "../control/object/sample-batches.ts";
import { partitionKeys } from "../control/key-streams.ts";
import { from, statusOf } from "../http/harness.ts";
import { admin, fieldsOf } from "./admin.ts";

const address = "203.0.113.7";

/** A control plane object with these methods. */
const objectWith = (methods: object) => ({ CONTROL_PLANE: { getByName: () => methods } });

describe("statistics", () => {
  const key = "k".repeat(43);
  const statistics = vi.fn<(query: object) => Promise<object>>(async (query) => ({
    ...query,
    points: [
      {
        atMs: 0,
        policy: "a",
        outcomes: { allowed: 2 },
        nearLimit: 1,
        latency: [[0, 2]],
        latencySumMs: 3,
      },
    ],
    originFailures: [{ atMs: 60_000, count: 1 }],
  }));
  const top = vi.fn<(query: object) => Promise<object>>(async () => [{ key, count: 9, error: 1 }]);
  const methods = {
    statistics,
    top,
    metrics: async () => "# TYPE headgate_decisions_total counter\n",
    ticket: async () => ({ ticket: "a-ticket", expiresAtMs: 30_000 }),
  };

  it("statistics are by minute for an hour by default, and instants are RFC 3339 texts", async () => {
    const { call } = admin({}, objectWith(methods));
    const { body } = await call("GET", "/stats?to=2026-11-22T18:00:00%2B01:00");
    expect(statistics).toHaveBeenLastCalledWith({
      fromMs: Date.parse("2026-11-22T16:00:00Z"),
      toMs: Date.parse("2026-11-22T17:00:00Z"),
      stepMs: 60_000,
    });
    expect(body).toMatchObject({
      from: "2026-11-22T16:00:00.000Z",
      points: [{ at: "1970-01-01T00:00:00.000Z", policy: "a", nearLimit: 1 }],
      originFailures: [{ at: "1970-01-01T00:01:00.000Z", count: 1 }],
    });
    // This object is of an earlier version, which counts no requests.
    expect(body.requests).toEqual([{ at: "1970-01-01T00:00:00.000Z", decided: null, denied: null }]);
    const week = "from=2026-11-15T00:00:00Z&to=2026-11-22T00:00:00Z";
    await call("GET", `/stats?${week}`);
    expect(statistics.mock.lastCall?.[0]).toMatchObject({ stepMs: 3_600_000 });
  });

  it.for<[string, string]>([
    ["from=yesterday", "from"],
    ["from=2026-11-22T18:00:00Z&to=2026-11-22T17:00:00Z", "from"],
    ["from=2026-01-01T00:00:00Z&to=2026-11-22T17:00:00Z", "from"],
    ["step=30s", "step"],
    ["step=90s", "step"],
    ["from=2026-11-01T00:00:00Z&to=2026-11-22T17:00:00Z&step=1m", "step"],
  ])("the query %s of statistics is refused", async ([query, field]) => {
    const { call } = admin({}, objectWith(methods));
    expect(fieldsOf(await call("GET", `/stats?${query}`))).toEqual([field]);
    expect(await call("GET", "/stats?policy=unknown")).toMatchObject({ status: 404 });
  });

  it("statistics have the most denied keys of their period and the first counts, unless the control plane is of an earlier version", async () => {
    const { call, policy } = admin({}, objectWith(methods));
    const counted = { fromMs: 0, toMs: 60_000, stepMs: 60_000, points: [], originFailures: [] };
    statistics.mockResolvedValueOnce(counted);
    const earlier = await call("GET", "/stats?top=3");
    expect(earlier).toMatchObject({ status: 200 });
    expect(earlier.body).not.toHaveProperty("top");
    expect(statistics.mock.lastCall?.[0]).toMatchObject({ top: { limit: 3, steps: 30 } });
    statistics.mockResolvedValueOnce({
      ...counted,
      firstCounts: [{ policy: null, atMs: 0, deniedAtMs: null }],
      top: {
        policy: "removed",
        fromMs: 0,
        keys: [{ key, count: 9, error: 1, sealed: "sealed" }],
        period: { denials: 7, isComplete: true, keys: [{ key, count: 5, steps: Array.from({ length: 30 }).fill(0) }] },
      },
    });
    const { body } = await call("GET", "/stats?top=3&topPolicy=removed");
    expect(statistics.mock.lastCall?.[0]).toMatchObject({ top: { policy: "removed" } });
    expect(body.firstCounts).toEqual([{ policy: null, at: "1970-01-01T00:00:00.000Z", deniedAt: null }]);
    expect(body.top).toMatchObject({
      policy: "removed",
      by: "denied",
      period: { from: body.from, to: body.to, denials: 7, keys: [{ id: key, count: 5 }] },
    });
    expect(body.top.keys).toEqual([{ id: key, count: 9, error: 1 }]);
    statistics.mockResolvedValueOnce({ ...counted, top: null });
    expect((await call("GET", `/stats?top=1&policy=${policy}`)).body.top).toBeNull();
    expect(fieldsOf(await call("GET", "/stats?top=0"))).toEqual(["top"]);
  });

  it("top keys are counted from a whole hour on, at most 24 hours ago", async () => {
    const { call, policy } = admin({}, objectWith(methods));
    const hourMs = 3_600_000;
    const currentMs = Math.floor(Date.now() / hourMs) * hourMs;
    const fromOf = async (fromMs: number): Promise<number> => {
      const { body } = await call("GET", `/top?policy=${policy}&from=${new Date(fromMs).toISOString()}`);
      expect(top.mock.lastCall?.[0]).toMatchObject({ fromMs: Date.parse(body.from) });
      return (Date.parse(body.from) - currentMs) / hourMs;
    };
    expect(await fromOf(currentMs - 1)).toBe(-1);
    expect(await fromOf(currentMs - 30 * hourMs)).toBe(-23);
  });

  it("top keys have the most denied keys of exactly a period, unless the control plane is of an earlier version", async () => {
    const deniedKeys = vi.fn<(query: object) => Promise<object>>(async () => ({
      denials: 7,
      isComplete: true,
      keys: [{ key, count: 5, steps: Array.from({ length: 30 }).fill(0) }],
    }));
    const period = "from=2026-11-22T16:00:10Z&to=2026-11-22T16:05:10Z";
    const { call, policy } = admin({}, objectWith({ ...methods, deniedKeys }));
    const { body } = await call("GET", `/top?policy=${policy}&${period}`);
    expect(body.period).toMatchObject({
      from: "2026-11-22T16:00:10.000Z",
      to: "2026-11-22T16:05:10.000Z",
      denials: 7,
      isComplete: true,
      keys: [{ id: key, count: 5 }],
    });
    expect(deniedKeys.mock.lastCall?.[0]).toMatchObject({ policy, limit: 10, steps: 30 });
    expect(fieldsOf(await call("GET", `/top?policy=${policy}&to=2026-11-22T16:05:10Z`))).toEqual(["from"]);
    expect(fieldsOf(await call("GET", `/top?policy=${policy}&by=cost&${period}`))).toEqual(["to"]);
    const earlier = admin({}, objectWith(methods));
    const answer = await earlier.call("GET", `/top?policy=${earlier.policy}&${period}`);
    expect(answer).toMatchObject({ status: 200 });
    expect(answer.body.period).toBeUndefined();
  });

  it("top keys have ids, and metrics are Prometheus text", async () => {
    const { call, policy } = admin({}, objectWith(methods));
    const listed = await call("GET", `/top?policy=${policy}&by=cost&limit=5`);
    expect(listed.body).toEqual({
      policy,
      by: "cost",
      from: expect.any(String),
      keys: [{ id: key, count: 9, error: 1 }],
    });
    const revealed = await call("GET", `/top?policy=${policy}&reveal=true`);
    expect(revealed.body.keys).toEqual([{ id: key, count: 9, error: 1, key: null }]);
    expect(fieldsOf(await call("GET", `/top?policy=${policy}&by=age`))).toEqual(["by"]);
    const metrics = await call("GET", "/metrics");
    expect(metrics.headers.get("Content-Type")).toBe("text/plain; version=0.0.4; charset=utf-8");
    expect(metrics.body).toContain("headgate_decisions_total");
  });

  it("a ticket opens the tail once, and wrong tickets of an address are limited", async () => {
    const fetch = vi.fn<(request: Request) => Promise<Response>>(async (request) => {
      if (!request.url.endsWith("ticket=a-ticket")) return new Response(null, { status: 403 });
      const { 0: client, 1: server } = new WebSocketPair();
      server.accept();
      return new Response(null, { status: 101, webSocket: client });
    });
    const { call, send } = admin({}, objectWith({ ...methods, fetch }));
    const made = await call("POST", "/tail/ticket");
    expect(made).toMatchObject({ status: 201, body: { ticket: "a-ticket" } });
    const open = (ticket: string, headers: Record<string, string> = {}) =>
      send(`/_headgate/api/tail?ticket=${ticket}`, {
        headers: { Upgrade: "websocket", "CF-Connecting-IP": "203.0.113.99", ...headers },
      });
    const opened = await open("a-ticket", { "Sec-Fetch-Site": "same-origin" });
    expect([opened.status, opened.webSocket === null]).toEqual([101, false]);
    opened.webSocket?.accept();
    opened.webSocket?.close();
    const crossSite = open("a-ticket", { "Sec-Fetch-Site": "cross-site" });
    expect(await statusOf(crossSite)).toBe(403);
    expect(await statusOf(send("/_headgate/api/tail?ticket=a-ticket"))).toBe(426);
    expect(await statusOf(open("%20"))).toBe(422);
    const wrong = [];
    for (let index = 0; index < 11; index++) {
      // oxlint-disable-next-line no-await-in-loop
      wrong.push(await statusOf(open(`wrong-${index}`)));
    }
    expect(wrong).toEqual([...Array<number>(10).fill(401), 429]);
    expect(fetch).toHaveBeenCalledTimes(11);
  });

  it("a valid ticket gets 503 while the maximum number of tails is open, and does not count as a failed attempt", async () => {
    const fetch = async () => new Response(null, { status: 503 });
    const { send } = admin({}, objectWith({ ...methods, fetch }));
    const open = () =>
      send("/_headgate/api/tail?ticket=a-ticket", {
        headers: { Upgrade: "websocket", "CF-Connecting-IP": "203.0.113.98" },
      });
    const answers = [];
    for (let index = 0; index < 12; index++) {
      // oxlint-disable-next-line no-await-in-loop
      answers.push(await statusOf(open()));
    }
    expect(new Set(answers)).toEqual(new Set([503]));
  });
});

describe("the statistics of the real object", () => {
  it("decisions are counted in statistics, top keys and metrics, and no metric names a key", async () => {
    const { call, policy, send } = admin({ limits: "1/hour", denyCache: false });
    for (let index = 0; index < 4; index++) {
      // oxlint-disable-next-line no-await-in-loop
      await statusOf(send("/", from(address)));
    }
    // Each call of the admin API may start a beat, which takes the counts of earlier calls.
    await call("GET", "/policies");
    expect(await call("GET", `/stats?policy=${policy}`)).toMatchObject({ status: 200 });
    expect(await call("GET", `/top?policy=${policy}`)).toMatchObject({ status: 200 });
    const metrics = await call("GET", "/metrics");
    expect(metrics.body).toContain(policy);
    expect(metrics.body).not.toContain(address);
  });

  it("the samples that beats bring are streamed as lines, without the samples of other policies", async () => {
    const { call, policy } = admin({}, { SAMPLE: "1/1" });
    const nowMs = Date.now();
    const [key = ""] = partitionKeys(1);
    const sampled = sampleBatch({ [key]: [arrival(nowMs - 1)] }, { oneKeyIn: 1 });
    const samples = { [policy]: sampled, [`${policy}-2`]: sampled };
    const stub = env.CONTROL_PLANE.getByName("control-plane");
    await stub.beat(beat([{ ...batch(1, 0), samples }], { isolate: policy }));
    const { status, body } = await call("GET", `/samples?policy=${policy}`);
    const lines = String(body).trimEnd().split("\n");
    expect([status, lines.length]).toEqual([200, 2]);
    expect(JSON.parse(lines[0] ?? "")).toMatchObject({ policy, sample: "1/1", arrivals: 1 });
    expect(JSON.parse(lines[1] ?? "")).toEqual({ id: key, arrivals: [[nowMs - 1, 1, "allowed"]] });
    expect(await call("HEAD", `/samples?policy=${policy}`)).toMatchObject({ status: 200 });
  });

  it("a ticket of the object opens one WebSocket", async () => {
    const { call, send } = admin();
    const { body } = await call("POST", "/tail/ticket");
    const open = () => send(`/_headgate/api/tail?ticket=${body.ticket}`, { headers: { Upgrade: "websocket" } });
    const opened = await open();
    expect(opened.status).toBe(101);
    opened.webSocket?.accept();
    opened.webSocket?.close();
    expect(await statusOf(open())).toBe(401);
  });
});
