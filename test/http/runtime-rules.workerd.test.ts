/**
 * Runtime rules in the Worker: each request and each operation of /check starts the beats that bring them, and obeys
 * them.
 */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type App, createApp } from "../../src/app.ts";
import type { BeatCall, BeatReply } from "../../src/control/protocol.ts";
import { platformClock } from "../../src/limiter/clock.ts";
import { KeyObject } from "../../src/limiter/object/key-object.ts";
import type { StaleRules } from "../../src/limiter/protocol.ts";
import type { FlatList } from "../../src/limiter/flat-calls.ts";
import { nestedCall } from "../fakes/flat-calls.ts";
import { settled, startMs } from "../fakes/isolate.ts";
import { MemoryStorage } from "../../src/sdk/testing/memory-storage.ts";

const token = "the-tests-token";

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: startMs }));
afterEach(() => void vi.useRealTimers());

/** The namespace of the objects of keys. */
class LimiterObjects {
  readonly calls: { readonly name: string; readonly argument: unknown }[] = [];
  readonly #objects = new Map<string, KeyObject>();

  getByName(name: string): object {
    const object = this.#objects.get(name) ?? new KeyObject({ storage: new MemoryStorage(), ...platformClock });
    this.#objects.set(name, object);
    return new Proxy(object, {
      get:
        (target, method) =>
        async (...args: readonly unknown[]) => {
          const [texts, checks] = args as [readonly string[], FlatList];
          const isFlat = method === "decide";
          this.calls.push(isFlat ? nestedCall({ texts, checks }) : { name: String(method), argument: args[0] });
          return structuredClone(Reflect.apply(Reflect.get(target, method), target, args));
        },
    });
  }
}

/** A control plane whose rules a test sets. */
class Plane {
  rules: readonly StaleRules[] = [];
  readonly calls: BeatCall[] = [];
  answer: (reply: BeatReply) => Promise<BeatReply> = (reply) => Promise.resolve(reply);

  getByName(): object {
    return {
      beat: (call: BeatCall) => {
        this.calls.push(call);
        const flags = { isWatched: false, isTailed: false, hasRules: true, wantsPolicies: false };
        return this.answer({ epoch: 1, changed: this.rules, storedSeq: 0, ...flags });
      },
    };
  }

  /** Makes rules for the policy "api". */
  set(...rules: readonly object[]): void {
    const text = JSON.stringify(rules.map((rule, index) => ({ id: `r${index}`, ...rule })));
    this.rules = [{ policy: "api", epoch: 1, version: 1, text }];
  }
}

interface Worker {
  readonly app: App;
  readonly plane: Plane;
  readonly objects: LimiterObjects;
  readonly work: Promise<unknown>[];
  readonly waitUntil: (work: Promise<unknown>) => void;
  readonly send: (path: string, init?: RequestInit) => Promise<Response>;
  /** A call of /check with a valid token. */
  readonly check: (method: string, path: string, body?: unknown) => Promise<Response>;
}

function start(variables: Record<string, unknown> = {}): Worker {
  const plane = new Plane();
  const objects = new LimiterObjects();
  const work: Promise<unknown>[] = [];
  const env = {
    ORIGIN: "https://origin.example",
    KEY_SECRET: "a secret of thirty-two characters or more",
    CHECK_TOKENS: token,
    ADMIN_TOKENS: "the-operators-token-of-32-characters",
    POLICIES: [{ name: "api", key: "ip", limits: "10/minute" }],
    RATE_LIMITER: objects,
    CONTROL_PLANE: plane,
    ...variables,
  };
  const app = createApp(env as never);
  const waitUntil = (each: Promise<unknown>): void => void work.push(each);
  const context = { waitUntil, passThroughOnException: () => undefined, props: {} };
  const send = async (path: string, init: RequestInit = {}): Promise<Response> => {
    const headers = new Headers(init.headers);
    headers.set("CF-Connecting-IP", "203.0.113.7");
    const request = new Request(`https://headgate.example${path}`, { ...init, headers });
    return app.routes.fetch(request, env, context);
  };
  const check: Worker["check"] = (method, path, body) =>
    send(path, {
      method,
      headers: {
        Authorization: `Bearer ${token}`,
        "Content-Type": "application/json",
        "X-Forwarded-Method": "GET",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Host": "api.example",
        "X-Forwarded-Uri": "/",
        "X-Forwarded-For": "203.0.113.7",
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
  return { app, plane, objects, work, waitUntil, send, check };
}

const key = ["203.0.113.7"];
const id = "unknown";

describe("requests that keep the rules up to date", () => {
  it.each<[string, (worker: Worker) => unknown]>([
    ["a proxied request", ({ send }) => send("/")],
    ["GET /check", ({ check }) => check("GET", "/check?key=203.0.113.7")],
    ["POST /check", ({ check }) => check("POST", "/check", { key })],
    ["DELETE /check", ({ check }) => check("DELETE", "/check?key=203.0.113.7")],
    ["POST /check/batch", ({ check }) => check("POST", "/check/batch", { checks: [{ key }] })],
    ["POST /check/reserve", ({ check }) => check("POST", "/check/reserve", { key, ttlMs: 5_000 })],
    ["POST /check/settle", ({ check }) => check("POST", "/check/settle", { id, cost: 1 })],
    ["GET /check/forward", ({ check }) => check("GET", "/check/forward")],
    ["check of the service", ({ app, waitUntil }) => app.service.check({ key }, waitUntil)],
    ["look of the service", ({ app, waitUntil }) => app.service.look({ key }, waitUntil)],
    ["forget of the service", ({ app, waitUntil }) => app.service.forget({ key }, waitUntil)],
    ["reserve of the service", ({ app, waitUntil }) => app.service.reserve({ key, ttlMs: 5_000 }, waitUntil)],
    ["settle of the service", ({ app, waitUntil }) => app.service.settle({ id, cost: 1 }, waitUntil)],
  ])("%s starts a beat when one is due", async (_, call) => {
    const worker = start();
    await call(worker);
    await settled();
    expect(worker.plane.calls).toHaveLength(1);
    await call(worker);
    vi.setSystemTime(startMs + 5_000);
    await call(worker);
    await settled();
    expect(worker.plane.calls).toHaveLength(2);
  });

  it("neither a call of /check without a valid token nor a health check starts a beat", async () => {
    const { send, plane } = start();
    expect((await send("/check", { method: "POST" })).status).toBe(401);
    expect((await send("/check/health")).status).toBe(200);
    await settled();
    expect(plane.calls).toEqual([]);
  });

  it("a response does not wait for a control plane that hangs", async () => {
    const { send, plane } = start();
    plane.answer = () => new Promise(() => undefined);
    const response = await send("/");
    expect(response.headers.get("RateLimit")).toMatch(/^"api";r=9;/);
    await settled();
    expect(plane.calls).toHaveLength(1);
  });
});

describe("without a control plane", () => {
  it.each<[string, Record<string, unknown>]>([
    ["credentials", { ADMIN_TOKENS: undefined }],
    ["the binding CONTROL_PLANE", { CONTROL_PLANE: undefined }],
  ])("without %s there are no beats, and charges carry no rules", async (_, variables) => {
    const { send, plane, objects } = start(variables);
    await send("/");
    await settled();
    expect(plane.calls).toEqual([]);
    expect(objects.calls).toMatchObject([{ argument: { charges: [{ policy: "api" }] } }]);
    expect(JSON.stringify(objects.calls)).not.toContain('"rules"');
  });
});

describe("rules in the Worker", () => {
  /** A Worker whose isolate has received these rules for the policy "api". */
  async function withRules(...rules: readonly object[]): Promise<Worker> {
    const worker = start();
    worker.plane.set(...rules);
    await worker.check("POST", "/check/settle", { id, cost: 1 });
    await settled();
    return worker;
  }

  it("limits of a rule decide requests, and the RateLimit fields show them", async () => {
    const { send, objects } = await withRules({ kind: "limits", limits: "3/minute" });
    const response = await send("/");
    expect(response.headers.get("RateLimit")).toMatch(/^"api";r=2;/);
    expect(response.headers.get("RateLimit-Policy")).toMatch(/^"api";q=3;w=60/);
    const rules = { epoch: 1, version: 1, text: expect.stringContaining("3/minute") };
    expect(objects.calls.at(-1)).toMatchObject({ argument: { charges: [{ rules }] } });
  });

  it("a rule denies requests from a network with 403, and a rule exempts another network from charges", async () => {
    const denied = await withRules({ kind: "deny", entries: ["203.0.113.0/24"] });
    expect((await denied.send("/")).status).toBe(403);
    const answer = await denied.check("POST", "/check", { key });
    expect(await answer.json()).toMatchObject({ allowed: false, reason: "deny" });
    const allowed = await withRules({ kind: "allow", entries: ["203.0.113.0/24"] });
    await allowed.send("/");
    expect(allowed.objects.calls).toEqual([]);
  });

  it("calls of /check are limited by rules of the policies for these calls", async () => {
    const POLICIES = [{ name: "api", match: { path: "/check*" }, key: "global", limits: "10/minute" }];
    const worker = start({ POLICIES });
    worker.plane.set({ kind: "limits", limits: "1/minute" });
    const statuses: number[] = [];
    for (let count = 0; count < 3; count++) {
      // oxlint-disable-next-line no-await-in-loop
      statuses.push((await worker.check("POST", "/check/settle", { id, cost: 1 })).status);
      // oxlint-disable-next-line no-await-in-loop
      await settled();
    }
    expect(statuses).toEqual([200, 429, 429]);
  });
});
