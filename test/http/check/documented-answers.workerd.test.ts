/** The statuses of each operation of `/check` are those of the OpenAPI document. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import document from "../../../src/http/wire/openapi.json" with { type: "json" };
import { type Headgate, headgate, statusOf, token } from "../harness.ts";

/** Tokens that each lack the right that a call needs. */
const lackingTokens = { look: "forgetter", others: "looker" };

const POLICIES = [{ name: "p", limits: "2/hour", key: "header:X-Api-Key", onError: "closed" }];
const CHECK_TOKENS = [
  { token },
  { token: lackingTokens.look, may: ["forget"] },
  { token: lackingTokens.others, may: ["look"] },
];
const call = (): Promise<never> => Promise.reject(new Error("the object is gone"));
const silent = { decide: call, look: call, forget: call, reserve: call, settle: call };

const variables = { POLICIES, CHECK_TOKENS, KEY_SECRET: "shared by these Headgates" };
const sound = headgate(variables);
const broken = headgate({ LIMITS: "soon" });
/** A Worker whose self limits deny every call. */
const limited = headgate({
  ...variables,
  POLICIES: [...POLICIES, { name: "calls", match: { path: "/check*" }, key: "global", limits: "1/hour", cost: 2 }],
});
const undecided = headgate({ ...variables, RATE_LIMITER: { getByName: () => silent } });
/** A Worker whose self limits fail closed. */
const closed = headgate({
  ...variables,
  POLICIES: [
    ...POLICIES,
    {
      name: "calls",
      match: { path: "/check/*" },
      key: "global",
      limits: "1/hour",
      onError: "closed",
    },
  ],
  RATE_LIMITER: { getByName: () => silent },
});

beforeEach(() => void vi.spyOn(console, "error").mockReturnValue(undefined));
afterEach(() => void vi.restoreAllMocks());

interface Call {
  readonly method: string;
  readonly path: string;
  /** The query and body of a valid call. */
  readonly query?: string;
  readonly body?: object;
  /** The query or body of a call that is denied. */
  readonly denied?: object | string;
  readonly lackingToken: string;
}

const key = "k";
const post = { method: "POST", lackingToken: lackingTokens.others };
const operations: Readonly<Record<string, Call>> = {
  look: {
    method: "GET",
    path: "/check",
    query: "key=k",
    denied: "key=k&cost=3",
    lackingToken: lackingTokens.look,
  },
  check: { ...post, path: "/check", body: { key }, denied: { key, cost: 3 } },
  forget: { method: "DELETE", path: "/check", query: "key=k", lackingToken: lackingTokens.others },
  checkEach: { ...post, path: "/check/batch", body: { checks: [{ key }] } },
  reserve: {
    ...post,
    path: "/check/reserve",
    body: { key, ttlMs: 1_000 },
    denied: { key, cost: 3, ttlMs: 1_000 },
  },
  settle: { ...post, path: "/check/settle", body: { id: "none", cost: 1 } },
};

const typed = { "Content-Type": "application/json" };

function ask(
  { method, path, query = "", body }: Call,
  to: Headgate = sound,
  init: { headers?: Record<string, string>; body?: string } = {},
): Promise<Response> {
  const { headers = { ...typed, Authorization: `Bearer ${token}` } } = init;
  const text = init.body ?? (body && JSON.stringify(body));
  const url = query === "" ? path : `${path}?${query}`;
  return to.send(url, { method, headers, ...(text !== undefined && { body: text }) });
}

/** Makes the call with every mistake and during every failure, and returns the statuses. */
async function statusesFrom(valid: Call): Promise<Set<number>> {
  const isPost = valid.body !== undefined;
  const authorized = { Authorization: `Bearer ${token}` };
  const lacking = { ...typed, Authorization: `Bearer ${valid.lackingToken}` };
  const bodies = isPost
    ? ["{", " ".repeat(129 * 1024), '{"colour": 1}'].map((body) =>
        ask(valid, sound, { body, headers: { ...typed, ...authorized } }),
      )
    : ["key=%ff", "colour=1"].map((query) => ask({ ...valid, query }));
  const unknownPolicy = isPost
    ? { ...valid, body: { ...valid.body, policy: "unknown" } }
    : { ...valid, query: "policy=unknown&key=k" };
  const denied = ["403", "429"].map((deny) =>
    typeof valid.denied === "object"
      ? { ...valid, query: `deny=${deny}`, body: valid.denied }
      : { ...valid, query: `deny=${deny}&${valid.denied ?? ""}` },
  );
  const settled = await withReservation(valid);
  const answers = await Promise.all([
    ask(valid),
    ...bodies,
    ask(valid, sound, { headers: {} }),
    ask(valid, sound, { headers: lacking }),
    ask(valid, sound, { headers: authorized }),
    ask(unknownPolicy),
    ...(valid.denied === undefined ? [] : denied.map((each) => ask(each))),
    ask(valid, broken),
    ask(valid, limited),
    ask(settled, undecided),
    ask(valid, closed),
  ]);
  return new Set(answers.map(({ status }) => status));
}

/** A call of `/settle` with a valid id, since a call with an invalid id reaches no object. */
async function withReservation(valid: Call): Promise<Call> {
  if (valid !== operations["settle"]) return valid;
  const reserved = await sound.check("POST", "/check/reserve", { key: "another", ttlMs: 60_000 });
  return { ...valid, body: { ...valid.body, id: (await reserved.json<{ id: string }>()).id } };
}

const documented = Object.values(document.paths).flatMap((path) =>
  Object.values(path as Record<string, { operationId: string; responses: object }>),
);
const statusesOf = (name: string): Set<number> => {
  const operation = documented.find(({ operationId }) => operationId === name);
  return new Set(Object.keys(operation?.responses ?? {}).map(Number));
};

describe("the answers in the OpenAPI document", () => {
  it.for(Object.keys(operations))(
    "the operation %s answers exactly the statuses of the OpenAPI document",
    async (name) => {
      const valid = operations[name];
      expect(valid && (await statusesFrom(valid))).toEqual(statusesOf(name));
    },
  );

  it("GET /check/forward answers with the statuses in the OpenAPI document, and with the body of onDeny", async () => {
    const denying = (onDeny: object): Headgate =>
      headgate({ POLICIES: [{ name: "p", limits: "1/hour", key: "global", onDeny }] });
    const authorized = { Authorization: `Bearer ${token}`, "X-Forwarded-Method": "GET" };
    const forward = async (
      to: Headgate,
      query = "",
      headers: Record<string, string> = { ...authorized, "X-Forwarded-Uri": "/a?b" },
    ): Promise<[number, string | null]> => {
      const response = await to.send(`/check/forward${query}`, { headers });
      return [response.status, response.headers.get("Content-Type")];
    };
    const problem = "application/problem+json";
    const own = denying({ status: 418, body: "Slow down" });
    expect(await forward(own)).toEqual([204, null]);
    expect(await forward(own)).toEqual([418, "text/plain; charset=utf-8"]);
    expect(await forward(own, "?deny=403")).toEqual([403, "text/plain; charset=utf-8"]);
    expect(await forward(own, "?deny=429&deny=429")).toEqual([422, problem]);
    expect(await forward(own, "?deny=%ff")).toEqual([400, problem]);
    expect(await forward(own, "", authorized)).toEqual([422, problem]);
    expect(await forward(own, "", {})).toEqual([401, problem]);
    const busy = denying({ status: 503 });
    expect(await forward(busy)).toEqual([204, null]);
    expect(await forward(busy)).toEqual([503, problem]);
    expect(await forward(busy, "?deny=429")).toEqual([429, problem]);
    expect(await forward(undecided)).toEqual([503, problem]);
    expect(await forward(broken)).toEqual([500, problem]);
  });
});

describe("GET /check/openapi.json", () => {
  it("GET /check/openapi.json answers without a token, with a document that has the configured path", async () => {
    const response = await headgate({ LIMITS: "5/minute" }).send("/check/openapi.json");
    expect([response.status, await response.json()]).toEqual([200, document]);
    const moved = headgate({ LIMITS: "5/minute", CHECK_PATH: "/_limits/v1" });
    const served = await moved.send("/_limits/v1/openapi.json");
    expect(await served.json<typeof document>()).toEqual({
      ...document,
      servers: [{ ...document.servers[0], url: "/_limits/v1" }],
    });
  });

  it("without static assets, or with those of another site, /check/openapi.json answers 404", async () => {
    const page = { fetch: async () => new Response("<!doctype html>", { headers: { "Content-Type": "text/html" } }) };
    for (const ASSETS of [undefined, page, { fetch: async () => new Response(null, { status: 404 }) }]) {
      const response = await headgate({ LIMITS: "5/minute", ASSETS }).send("/check/openapi.json");
      expect([response.status, response.headers.get("Content-Type")]).toEqual([404, "application/problem+json"]);
      expect(await response.json()).toMatchObject({ detail: expect.stringContaining("ASSETS is missing") as string });
    }
  });

  it("/check/openapi.json answers HEAD without a body, and other methods with 405", async () => {
    const { send } = headgate({ LIMITS: "5/minute" });
    const head = await send("/check/openapi.json", { method: "HEAD" });
    expect([head.status, await head.text(), head.headers.get("Cache-Control")]).toEqual([200, "", "no-store"]);
    expect(head.headers.get("Content-Type")).toBe("application/json");
    const answer = await send("/check/openapi.json", { method: "POST", body: "{}" });
    expect([answer.status, answer.headers.get("Allow")]).toEqual([405, "GET, HEAD"]);
  });

  it("every path of the OpenAPI document exists", async () => {
    const { check } = headgate({ LIMITS: "5/minute" });
    const statuses = Object.keys(document.paths).map((path) => statusOf(check("PATCH", `/check${path}`)));
    expect(new Set(await Promise.all(statuses))).toEqual(new Set([405]));
  });
});

describe("the examples of the document", () => {
  const examplesOf = (operation: object): { readonly value: unknown }[] => {
    const { requestBody } = operation as { requestBody?: { content: Record<string, object> } };
    const { examples = {} } = (requestBody?.content["application/json"] ?? {}) as {
      examples?: Record<string, { value: unknown }>;
    };
    return Object.values(examples);
  };

  it("the request examples of the OpenAPI document are accepted", async () => {
    const { check } = headgate({
      POLICIES: [{ name: "login", key: "ip", limits: { limit: 5, window: "1m" } }],
    });
    const sent = Object.entries(document.paths).flatMap(([path, methods]) =>
      "post" in methods ? examplesOf(methods.post).map(({ value }) => [path, value] as const) : [],
    );
    const answers = sent.map(async ([path, value]) =>
      statusOf(check("POST", `/check${path === "/" ? "" : path}`, value)),
    );
    expect(await Promise.all(answers)).toEqual(sent.map(() => 200));
    expect(sent.length).toBeGreaterThan(6);
  });
});
