/** A Worker in plain Node: its app with objects in memory, and a control plane whose beats bring no rules. */
import { timingSafeEqual } from "node:crypto";
import { onTestFinished, vi } from "vitest";
import { createApp } from "../../src/app.ts";
import { emptyBeat } from "../fakes/empty-beat.ts";
import type { KeyRule } from "../../src/limiter/protocol.ts";
import { TestIsolate } from "../fakes/isolate.ts";
import { expectContract } from "./contract.ts";

const token = "the-tests-token";

/** Node's `crypto.subtle` lacks this method. */
Object.assign(crypto.subtle, { timingSafeEqual });

/** The name of the only object, which has the keys of all policies. */
const object = "0-of-1";

export class TestApp {
  readonly isolate = new TestIsolate();
  /** The paths that reached the origin. */
  readonly forwarded: string[] = [];
  readonly #app: ReturnType<typeof createApp>;
  readonly #work: Promise<unknown>[] = [];
  #version = 0;

  /** @param variables are added to an origin, tokens and a control plane; a value of undefined removes a variable */
  constructor(policies: readonly object[], variables: Record<string, unknown> = {}) {
    const sharded = { objects: "sharded", shards: 1, strategy: "fixed-window", key: "ip" };
    const env = {
      KEY_SECRET: "s",
      ORIGIN: "https://origin.example",
      CHECK_TOKENS: token,
      ADMIN_TOKENS: JSON.stringify([{ name: "admin", token: "a".repeat(32), may: ["write"] }]),
      CONTROL_PLANE: { getByName: () => ({ beat: () => Promise.resolve(emptyBeat) }) },
      RATE_LIMITER: this.isolate.namespace(),
      POLICIES: policies.map((policy) => ({ ...sharded, ...policy })),
      ...variables,
    };
    const set = Object.entries(env).filter(([, value]) => value !== undefined);
    const silent = (["warn", "error", "log"] as const).map((level) =>
      vi.spyOn(console, level).mockReturnValue(undefined),
    );
    const origin = vi.spyOn(globalThis, "fetch").mockImplementation(async (input) => {
      this.forwarded.push(new URL(input instanceof Request ? input.url : input).pathname);
      return new Response("from the origin");
    });
    onTestFinished(() => {
      for (const spy of [...silent, origin]) spy.mockRestore();
    });
    this.#app = createApp(Object.fromEntries(set) as unknown as Env);
  }

  get service() {
    return this.#app.service;
  }

  readonly waitUntil = (work: Promise<unknown>): void => void this.#work.push(work);

  /** Sends a request, and waits for the work after its response. */
  async send(path: string, init: RequestInit = {}): Promise<Response> {
    const url = new URL(path, "https://headgate.example");
    const request = new Request(url, init);
    request.headers.set("CF-Connecting-IP", "203.0.113.7");
    const context = { waitUntil: this.waitUntil, passThroughOnException: () => undefined };
    const { method } = request;
    const response = await this.#app.routes.fetch(request, {}, context as never);
    await Promise.all(this.#work.splice(0));
    await expectContract("/check", { method, url, body: init.body }, response);
    return response;
  }

  /** Sends a request as the platform does, and waits for the work after its response. */
  async fetch(request: Request): Promise<Response> {
    const context = { waitUntil: this.waitUntil, passThroughOnException: () => undefined };
    const response = await this.#app.fetch(request, {} as never, context as never);
    await Promise.all(this.#work.splice(0));
    return response;
  }

  /** Sends a request to `/check`, and returns the body of the answer. */
  async check(method: string, path: string, body?: unknown): Promise<unknown> {
    const response = await this.send(path, {
      method,
      headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    return response.status === 204 ? null : response.json();
  }

  /** Makes the object learn newer rules of a policy, as if an isolate with these rules had called it. */
  setPolicyRules(policy: string, rules: readonly object[]): void {
    this.#version += 1;
    const text = JSON.stringify(rules.map((rule, index) => ({ id: `r${index}`, ...rule })));
    const newer = { epoch: 1, version: this.#version, text };
    const charges = [{ policy, limits: [], cost: 0, rules: newer }];
    this.isolate.object(object).check({ key: "another key", charges });
  }

  /** Sets the rules of the key in the last call to an object. */
  setKeyRules(policy: string, rules: readonly object[]): void {
    this.#version += 1;
    const all = rules.map((rule, index) => ({ id: `r${index}`, ...rule }) as KeyRule);
    const version = { epoch: 1, version: this.#version };
    this.isolate.object(object).setRules(this.#lastKey(), policy, all, version);
  }

  #lastKey(): string {
    const keys = this.isolate.calls.map(({ argument }) => (argument as { key?: string }).key);
    const key = keys.findLast((each) => each !== undefined);
    if (key === undefined) throw new Error("a call to an object was expected");
    return key;
  }

  /** The names of the calls to the object since this method was last called. */
  callNames(): string[] {
    return this.isolate.callNames();
  }
}
