/** `/api/policies`, statistics and the tail, and where the admin API is served. */
import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { batch, beat } from "../control/object/batches.ts";
import { arrival, sampleBatch } from "../control/object/sample-batches.ts";
import { partitionKeys } from "../control/key-streams.ts";
import { from, headgate, statusOf } from "../http/harness.ts";
import { admin, type Answer, fieldsOf, ifMatch, tokens } from "./admin.ts";

const address = "203.0.113.7";

/** A control plane object with these methods. */
const objectWith = (methods: object) => ({ CONTROL_PLANE: { getByName: () => methods } });

describe("the policy in effect", () => {
  it("a policy without rules is shown as configured, with only the number of its configured entries", async () => {
    const { call, policy } = admin({ deny: ["198.51.100.0/24", "198.51.101.1"], limits: "5/hour" });
    const { body, headers } = await call("GET", `/policies/${policy}`);
    expect(body).toMatchObject({
      name: policy,
      key: ["ip"],
      mode: { value: "enforce", source: "configuration" },
      limits: { value: [{ limit: 5, windowMs: 3_600_000 }], source: "configuration" },
      allow: [],
      deny: [{ count: 2, source: "configuration" }],
      overrides: [],
      rules: [],
      refused: [],
    });
    expect(JSON.stringify(body)).not.toContain("198.51.100");
    expect(headers.get("ETag")).toBe(`"${body.epoch}-${body.version}"`);
    expect((await call("GET", "/policies")).body.policies).toEqual([body]);
  });

  it("a patch changes parts of a policy for two hours, the next request is decided by them, and null removes them", async () => {
    const gate = admin({ limits: "1/hour", denyCache: false });
    const { call, policy, send } = gate;
    const visit = (ip = address) => statusOf(send("/", from(ip)));
    expect([await visit(), await visit()]).toEqual([200, 429]);
    const path = `/policies/${policy}`;
    const before = await call("GET", path);
    const patch = {
      limits: "3/hour",
      deny: ["198.51.100.0/24"],
      for: "2h",
      note: "credential stuffing",
    };
    const type = { "Content-Type": "application/merge-patch+json" };
    const patched = await call("PATCH", path, patch, { ...ifMatch(before), ...type });
    expect(patched.status).toBe(200);
    expect(patched.body).toMatchObject({
      mode: { source: "configuration" },
      limits: { value: [{ limit: 3 }], source: "rule", rule: expect.any(String) },
      configured: { mode: "enforce", limits: [{ limit: 1, windowMs: 3_600_000 }] },
      deny: [{ count: 1, source: "rule" }],
    });
    expect(patched.body.rules).toHaveLength(2);
    expect([await visit(), await visit(), await visit()]).toEqual([200, 200, 429]);
    expect(await visit("198.51.100.9")).toBe(403);

    const off = await call("PATCH", path, { mode: "off" }, ifMatch(patched));
    expect([off.body.mode.value, await visit()]).toEqual(["off", 200]);
    const undo = { mode: null, limits: null, deny: null };
    const undone = await call("PATCH", path, undo, ifMatch(off));
    expect(undone.body).toMatchObject({ mode: { value: "enforce" }, rules: [] });
    expect([await visit(), await visit("198.51.100.9")]).toEqual([429, 200]);
    const again = await call("PATCH", path, undo, ifMatch(before));
    expect([again.status, again.headers.get("ETag")]).toEqual([412, undone.headers.get("ETag")]);
  });

  it.for<[object, string[]]>([
    [{}, ["body"]],
    [{ note: "x" }, ["body"]],
    [{ mode: "loud" }, ["mode"]],
    [{ limits: "0/hour", mode: "off" }, ["limits.limit"]],
    [{ strategy: "token-bucket", mode: "off" }, ["strategy"]],
    [{ strategy: "token-bucket", limits: null }, ["strategy"]],
    [{ deny: ["198.51.100.0/24"] }, ["note"]],
    [{ deny: ["?"], allow: [], note: "x" }, ["allow", "deny[0]"]],
    [{ mode: "off", for: "2h", expiresAt: "2030-01-01T00:00:00Z" }, ["expiresAt"]],
    [{ mode: null, for: "2h" }, ["for"]],
    [{ mode: null, expiresAt: "2030-01-01T00:00:00Z" }, ["expiresAt"]],
    [{ colour: "red" }, ["colour"]],
  ])("the patch %j is refused, and every wrong field is named", async ([patch, expected]) => {
    const { call, policy } = admin();
    const answer = await call("PATCH", `/policies/${policy}`, patch, { "If-Match": "*" });
    expect(new Set(fieldsOf(answer))).toEqual(new Set(expected));
  });

  it("a patch without If-Match gets 428, and a patch of an unknown policy gets 404", async () => {
    const { call, policy } = admin();
    const patch = { mode: "off" };
    expect((await call("PATCH", `/policies/${policy}`, patch)).status).toBe(428);
    expect((await call("PATCH", "/policies/unknown", patch, { "If-Match": "*" })).status).toBe(404);
  });
});

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

describe("a control plane that does not answer", () => {
  const unavailable = ({ status, headers }: Answer): unknown => [status, headers.get("Retry-After")];

  it("when the control plane fails, its calls get 503, and decisions and explanations continue", async () => {
    const fail = () => Promise.reject(new Error("the object is gone"));
    const names = ["rules", "createRule", "policyState", "note", "beat"];
    const methods = Object.fromEntries(names.map((name) => [name, fail]));
    const { call, policy, send } = admin({}, objectWith(methods));
    const answers = await Promise.all([
      call("GET", "/rules"),
      call("POST", "/rules", { policy, key: address, kind: "allow" }),
      call("GET", `/policies/${policy}`),
      call("DELETE", `/keys/${policy}/${"a".repeat(43)}/usage`),
    ]);
    expect(answers.map(unavailable)).toEqual(answers.map(() => [503, "2"]));
    const explained = await call("POST", "/keys/explain", { policy, key: address });
    expect(explained.body).toMatchObject({ allowed: true, versions: { controlPlane: null } });
    expect(await statusOf(send("/", from(address)))).toBe(200);
  });

  it("with credentials but without the control plane binding, the admin API gets 503 with the name of the binding", async () => {
    const { call } = admin({}, { CONTROL_PLANE: undefined });
    const { status, body } = await call("GET", "/rules");
    expect([status, body.detail]).toEqual([503, expect.stringContaining("CONTROL_PLANE")]);
  });
});

describe("the path of the admin API", () => {
  const headers = { Authorization: `Bearer ${tokens.all}` };

  it("no path below ADMIN_PATH is forwarded to the origin, in any spelling", async () => {
    const { send } = admin();
    const paths = [
      "/_headgate",
      "/_headgate/",
      "/_headgate/console",
      "/%5fheadgate/api/nothing",
      "https://headgate.example//_headgate//api/nothing/",
      "/_headgate/api",
      "/x/../_headgate/api/nothing",
    ];
    const statuses = await Promise.all(paths.map((path) => statusOf(send(path, { headers }))));
    expect(statuses).toEqual(paths.map(() => 404));
    const spelled = send("/%5Fheadgate//api/policies/", { headers });
    expect(await statusOf(spelled)).toBe(200);
  });

  it("without credentials, or for a path that only resembles ADMIN_PATH, requests go to the origin", async () => {
    const open = headgate({ LIMITS: "5/hour" });
    const origin = await open.send("/_headgate/api/policies", { headers });
    expect(await origin.json()).toMatchObject({
      url: "https://origin.example/_headgate/api/policies",
    });
    const { send } = admin();
    expect(await statusOf(send("/_headgates"))).toBe(200);
    expect(await statusOf(send("/_HEADGATE/api"))).toBe(200);
  });

  it("the variable ADMIN_PATH moves the admin API, and the OpenAPI document has the new path", async () => {
    const { send } = admin({}, { ADMIN_PATH: "/ops" });
    const document = await send("/ops/api/openapi.json", { headers });
    expect(await document.json()).toMatchObject({ servers: [{ url: "/ops/api" }] });
    expect(await statusOf(send("/_headgate/api/policies", { headers }))).toBe(200);
  });

  it("a method that a path does not support gets 405 with the supported methods", async () => {
    const { call } = admin();
    const answers = await Promise.all([
      call("PUT", "/policies/a"),
      call("POST", "/rules/a"),
      call("DELETE", "/tail/ticket"),
      call("POST", "/tail"),
      call("OPTIONS", "/rules"),
    ]);
    expect(answers.map(({ status, headers: answered }) => [status, answered.get("Allow")])).toEqual([
      [405, "GET, HEAD, PATCH"],
      [405, "GET, HEAD, PUT, DELETE"],
      [405, "POST"],
      [405, "GET, HEAD"],
      [405, "GET, HEAD, POST"],
    ]);
  });
});
