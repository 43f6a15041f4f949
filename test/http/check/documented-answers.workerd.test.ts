import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import document from "../../../src/http/wire/openapi.json" with { type: "json" };
import { type Headgate, headgate, token } from "../harness.ts";

/** A token that is for nothing but what is not asked of it here. */
const other = { look: "forgetter", forget: "looker" };

const POLICIES = [{ name: "p", limits: "2/hour", key: "header:X-Api-Key", onError: "closed" }];
const CHECK_TOKENS = [
  { token },
  { token: other.look, may: ["forget"] },
  { token: other.forget, may: ["look"] },
];
const call = (): Promise<never> => Promise.reject(new Error("the object is gone"));
const silent = { check: call, look: call, forget: call, reserve: call, settle: call };

const whole = { POLICIES, CHECK_TOKENS, KEY_SECRET: "one for all of them" };
const sound = headgate(whole);
const broken = headgate({ LIMITS: "soon" });
/** Takes no call at all. */
const limited = headgate({
  ...whole,
  POLICIES: [
    ...POLICIES,
    { name: "calls", match: { path: "/check*" }, key: "global", limits: "1/hour", cost: 2 },
  ],
});
const undecided = headgate({ ...whole, RATE_LIMITER: { getByName: () => silent } });
/** Cannot say who may call. */
const closed = headgate({
  ...whole,
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

interface Asked {
  readonly method: string;
  readonly path: string;
  /** What is asked when nothing is wrong. */
  readonly query?: string;
  readonly body?: object;
  /** What is denied, where anything is. */
  readonly denied?: object | string;
  readonly lackingToken: string;
}

const key = "k";
const post = { method: "POST", lackingToken: other.forget };
const operations: Readonly<Record<string, Asked>> = {
  look: {
    method: "GET",
    path: "/check",
    query: "key=k",
    denied: "key=k&cost=3",
    lackingToken: other.look,
  },
  check: { ...post, path: "/check", body: { key }, denied: { key, cost: 3 } },
  forget: { method: "DELETE", path: "/check", query: "key=k", lackingToken: other.forget },
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
  { method, path, query = "", body }: Asked,
  to: Headgate = sound,
  init: { headers?: Record<string, string>; body?: string } = {},
): Promise<Response> {
  const { headers = { ...typed, Authorization: `Bearer ${token}` } } = init;
  const text = init.body ?? (body && JSON.stringify(body));
  const url = query === "" ? path : `${path}?${query}`;
  return to.send(url, { method, headers, ...(text !== undefined && { body: text }) });
}

/** Everything that can be wrong with what is asked, whether it can be of this or not. */
async function answersTo(asked: Asked): Promise<Set<number>> {
  const isPost = asked.body !== undefined;
  const authorized = { Authorization: `Bearer ${token}` };
  const lacking = { ...typed, Authorization: `Bearer ${asked.lackingToken}` };
  const bodies = isPost
    ? ["{", " ".repeat(129 * 1024), '{"colour": 1}'].map((body) =>
        ask(asked, sound, { body, headers: { ...typed, ...authorized } }),
      )
    : ["key=%ff", "colour=1"].map((query) => ask({ ...asked, query }));
  const nobody = isPost
    ? { ...asked, body: { ...asked.body, policy: "nobody" } }
    : { ...asked, query: "policy=nobody&key=k" };
  const denied = ["403", "429"].map((deny) =>
    typeof asked.denied === "object"
      ? { ...asked, query: `deny=${deny}`, body: asked.denied }
      : { ...asked, query: `deny=${deny}&${asked.denied ?? ""}` },
  );
  const settled = await reservationOf(asked);
  const answers = await Promise.all([
    ask(asked),
    ...bodies,
    ask(asked, sound, { headers: {} }),
    ask(asked, sound, { headers: lacking }),
    ask(asked, sound, { headers: authorized }),
    ask(nobody),
    ...(asked.denied === undefined ? [] : denied.map((each) => ask(each))),
    ask(asked, broken),
    ask(asked, limited),
    ask(settled, undecided),
    ask(asked, closed),
  ]);
  return new Set(answers.map(({ status }) => status));
}

/** Of an id that is none no object is asked. */
async function reservationOf(asked: Asked): Promise<Asked> {
  if (asked !== operations["settle"]) return asked;
  const made = await sound.check("POST", "/check/reserve", { key: "another", ttlMs: 60_000 });
  return { ...asked, body: { ...asked.body, id: (await made.json<{ id: string }>()).id } };
}

const documented = Object.values(document.paths).flatMap((path) =>
  Object.values(path as Record<string, { operationId: string; responses: object }>),
);
const statusesOf = (name: string): Set<number> => {
  const operation = documented.find(({ operationId }) => operationId === name);
  return new Set(Object.keys(operation?.responses ?? {}).map(Number));
};

describe("the answers that the OpenAPI document tells of", () => {
  it.for(Object.keys(operations))("are all there are, and all given: %s", async (name) => {
    const asked = operations[name];
    expect(asked && (await answersTo(asked))).toEqual(statusesOf(name));
  });

  it("are all given to gateways, with the words of a policy's own", async () => {
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
