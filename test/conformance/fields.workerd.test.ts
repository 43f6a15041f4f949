/** H: the RateLimit fields (draft-ietf-httpapi-ratelimit-headers-11) as structured fields (RFC 9651). */
import * as fc from "fast-check";
import { type BareItem, parseList, SerializeError, serializeList } from "structured-headers";
import { afterAll, beforeAll, beforeEach, expect, it, vi } from "vitest";
import { rateLimitFields } from "../../src/http/wire/rate-limit-fields.ts";
import { createMeter, parseLimits } from "../../src/strategies/index.ts";
import { forAll } from "../for-all.ts";
import { headgate, statusOf } from "../http/harness.ts";
import { type Exchange, itemsOf, kinds, recordExchanges, startMs, visitor } from "./responses.ts";

let exchanges: readonly Exchange[] = [];
beforeAll(async () => {
  vi.spyOn(console, "warn").mockReturnValue(undefined);
  vi.useFakeTimers({ toFake: ["Date"] });
  exchanges = await recordExchanges();
});
beforeEach(() => void vi.setSystemTime(startMs));
afterAll(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

const fieldNames = ["RateLimit-Policy", "RateLimit"] as const;
const fieldsOf = ({ headers }: Response): (string | null)[] => fieldNames.map((name) => headers.get(name));
const valuesOf = (recorded: readonly Exchange[]): string[] =>
  recorded.flatMap(({ response }) => fieldsOf(response).filter((value) => value !== null));

const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && Number(value) >= 0;
const invalidFieldsOf = async (variables: Record<string, unknown>): Promise<unknown> => {
  const response = await headgate(variables).send("/", visitor);
  const { status, errors } = await response.json<{
    status: number;
    errors?: { field: string }[];
  }>();
  return [status, ...(errors ?? []).map(({ field }) => field)];
};

it("H01: every field value is a structured-field list in canonical form", () => {
  // Every configuration allows some requests, except `concurrency`, whose slots are all reserved beforehand.
  const statuses = new Set(exchanges.map(({ kind, response }) => `${kind} ${response.status}`));
  for (const kind of Object.keys(kinds)) {
    expect(statuses).toContain(`${kind} ${kind === "concurrency" ? 429 : 200}`);
  }
  for (const value of valuesOf(exchanges)) expect(serializeList(parseList(value))).toBe(value);
  expect(valuesOf(exchanges).length).toBeGreaterThan(150);
});

it("H02: every item of the RateLimit fields is a String", () => {
  for (const { policies, limits } of exchanges) {
    for (const { name } of [...policies, ...limits]) expect(name).toBeTypeOf("string");
  }
});

it("H03: every policy has an Integer q and every limit an Integer r, of digits only", () => {
  for (const { policies, limits } of exchanges) {
    for (const { parameters } of policies) expect(isCount(parameters.get("q"))).toBe(true);
    for (const { parameters } of limits) expect(isCount(parameters.get("r"))).toBe(true);
  }
  for (const value of valuesOf(exchanges)) {
    expect(value.replaceAll(/;[qrtw]=\d{1,15}(?![^;,])/g, "")).not.toMatch(/;[qrtw]\b/);
  }
});

it("H04: w is an Integer of at least 1, and absent for a window shorter than a second", () => {
  const all = exchanges.flatMap(({ kind, policies }) =>
    policies.map(({ parameters }) => ({ kind, w: parameters.get("w") })),
  );
  for (const { kind, w } of all) {
    const isShort = kind === "a window shorter than a second";
    expect([kind, isShort ? w === undefined : isCount(w) && w !== 0]).toEqual([kind, true]);
  }
  expect(all.filter(({ w }) => w === undefined)).not.toEqual([]);
});

it("H05: t is an Integer, rounded up, and never more than the window", async () => {
  for (const { policies, limits } of exchanges) {
    for (const { name, parameters } of limits) {
      const policy = policies.find((each) => each.name === name);
      const t = parameters.get("t");
      expect(t === undefined || isCount(t)).toBe(true);
      expect(Number(t ?? 0)).toBeLessThanOrEqual(Number(policy?.parameters.get("w") ?? 1));
    }
  }
  const { send } = headgate({ LIMITS: "99/minute", STRATEGY: "fixed-window" });
  const seconds = [];
  for (const afterMs of [0, 1, 999, 1_000, 1_001, 59_000, 59_999, 60_000]) {
    vi.setSystemTime(startMs + afterMs);
    // oxlint-disable-next-line no-await-in-loop
    const { headers } = await send("/", visitor);
    seconds.push(itemsOf(headers.get("RateLimit"))[0]?.parameters.get("t"));
  }
  expect(seconds).toEqual([60, 60, 60, 59, 59, 1, 1, 60]);
});

it("H06: only limits of concurrency slots have the parameter qu", () => {
  const units = new Map<unknown, Set<unknown>>();
  for (const { kind, policies } of exchanges) {
    for (const { name, parameters } of policies) {
      const isOfSlots = kind === "concurrency" || name === "slots";
      const known = units.get(isOfSlots) ?? new Set();
      units.set(isOfSlots, known.add(parameters.get("qu")));
    }
  }
  expect(units.get(true)).toEqual(new Set(["concurrent-requests"]));
  expect(units.get(false)).toEqual(new Set([undefined]));
});

it("H07: the RateLimit fields have no pk and reveal nothing about the key", () => {
  for (const { policies, limits } of exchanges) {
    for (const { parameters } of [...policies, ...limits]) expect(parameters.has("pk")).toBe(false);
  }
  expect(valuesOf(exchanges).join()).not.toMatch(/203\.0\.113|:[A-Za-z0-9+/]{8,}={0,2}:/);
});

it.for(['a"b', "a\\b", "café", "a\u0000", "a\n", "\u{1f600}"])(
  "H08: a name that a String cannot represent unescaped is a configuration problem: %j",
  async (name) => {
    const limit = { limit: 1, window: "1m", name };
    expect(await invalidFieldsOf({ POLICIES: [{ name, limits: "1/s" }] })).toEqual([500, "[0].name"]);
    expect(await invalidFieldsOf({ LIMITS: limit })).toEqual([500, "name"]);
  },
);

it("H08: names in the origin's RateLimit fields keep their escapes", async () => {
  const { send } = headgate({ LIMITS: "9/minute", STRATEGY: "fixed-window" });
  const originValue = String.raw`"a\"b\\c";r=1`;
  const { headers } = await send(`/answer?RateLimit=${encodeURIComponent(originValue)}`, visitor);
  expect(headers.get("RateLimit")).toBe(`${originValue}, "default";r=8;t=60`);
});

it.for(["1000000000000000/m", "NaN/m", "Infinity/m", "1e3/m", "-1/m", "1.5/m"])(
  "H09: a limit that is not a structured-field Integer is a configuration problem: %s",
  async (LIMITS) => {
    expect(await invalidFieldsOf({ LIMITS })).toEqual([500, expect.stringMatching(/^(?:limit)?$/)]);
  },
);

it.for([Infinity, Number.NaN, 1e15, 2 ** 53, -1, 0.5])(
  "H09: a number that is not a structured-field Integer is a configuration problem: %d",
  async (limit) => {
    expect(await invalidFieldsOf({ LIMITS: { limit, window: "1m" } })).toEqual([500, "limit"]);
  },
);

it("H10: the names in a field differ from one another even without regard to case", async () => {
  const namesOf = (value: string | null): string[] => itemsOf(value).map(({ name }) => String(name).toLowerCase());
  for (const value of valuesOf(exchanges)) {
    expect(new Set(namesOf(value)).size).toBe(namesOf(value).length);
  }
  expect(
    await invalidFieldsOf({
      POLICIES: [
        { name: "a", limits: "1/s" },
        { name: "b", limits: { limit: 1, window: "1m", name: "a" } },
      ],
    }),
  ).toEqual([500, "[1].limits"]);
  // The origin may use a name that Headgate also uses.
  const { send } = headgate({ POLICIES: [{ name: "origin", limits: "9/minute" }] });
  for (const name of ["origin", "Origin"]) {
    const query = new URLSearchParams({
      RateLimit: `"${name}";r=0;t=7`,
      "RateLimit-Policy": `"${name}";q=1;w=7`,
    });
    // oxlint-disable-next-line no-await-in-loop
    const response = await send(`/answer?${String(query)}`, visitor);
    const expected = ["origin", "headgate.origin"];
    expect(fieldsOf(response).map(namesOf)).toEqual([expected, expected]);
  }
});

it("H11: every name in RateLimit is also in RateLimit-Policy of the same response", () => {
  for (const { policies, limits } of exchanges) {
    const policyNames = policies.map(({ name }) => name);
    expect(policyNames).toEqual(expect.arrayContaining(limits.map(({ name }) => name)));
  }
});

it("H12: RateLimit-Policy is the same in all responses to requests that match the same policies", () => {
  for (const kind of Object.keys(kinds)) {
    const answers = exchanges.filter((each) => each.kind === kind);
    const values = answers.map(({ response }) => response.headers.get("RateLimit-Policy"));
    expect([kind, new Set(values).size, values[0]]).toEqual([kind, 1, expect.any(String)]);
  }
});

it("H12: RateLimit-Policy has the current length of a calendar window, even if no object is called", async () => {
  const first = { name: "first", key: "header:x-key", limits: "1/hour" };
  const monthly = { name: "monthly", key: "global", limits: "1000/month" };
  const { send } = headgate({ POLICIES: [first, monthly] });
  const answers = [await send("/", visitor), await send("/", visitor)];
  expect(answers.map(({ status }) => status)).toEqual([200, 429]);
  const values = answers.map(({ headers }) => headers.get("RateLimit-Policy"));
  expect(values[1]).toBe(values[0]);
});

it.for([
  ["no policy matches", { match: { path: "/other" } }, {}],
  ["the only policy is a dry run", { dryRun: true }, {}],
  ["no object decides and the policy fails open", { onError: "open" }, { RATE_LIMITER: {} }],
  ["the visitor is on an allow list", { allow: ["203.0.113.7"] }, {}],
] as const)("H13: the RateLimit fields are absent when %s", async ([, fields, variables]) => {
  vi.spyOn(console, "error").mockReturnValue(undefined);
  const POLICIES = [{ name: "p", limits: "9/minute", ...fields }];
  const response = await headgate({ POLICIES, ...variables }).send("/", visitor);
  expect([response.status, ...fieldsOf(response)]).toEqual([200, null, null]);
});

it.for([300, 301, 302, 303, 304, 305, 307, 308])(
  "H14: no RateLimit fields are added to a response of status %i",
  async (status) => {
    const { send } = headgate({ LIMITS: "9/minute" });
    const response = await send(`/answer?status=${status}&Location=/x`, visitor);
    expect([response.status, ...fieldsOf(response)]).toEqual([status, null, null]);
  },
);

it.each([200, 299, 400, 404, 599])("H14: RateLimit fields are added to a response of status %i", async (status) => {
  const { send } = headgate({ LIMITS: "9/minute" });
  const response = await send(`/answer?status=${status}`, visitor);
  expect([response.status, ...fieldsOf(response)]).toEqual([status, '"default";q=9;w=60', '"default";r=8;t=60']);
});

it("H14: no RateLimit fields are added to a WebSocket upgrade", async () => {
  const { send } = headgate({ LIMITS: "9/minute" });
  const headers = { ...visitor.headers, Upgrade: "websocket" };
  const response = await send("/websocket", { headers });
  expect([response.status, ...fieldsOf(response)]).toEqual([101, null, null]);
  response.webSocket?.accept();
  response.webSocket?.close();
});

it("H15: the RateLimit fields have only parameters of the draft", () => {
  const parameters = (items: "policies" | "limits"): Set<string> =>
    new Set(exchanges.flatMap((each) => each[items].flatMap((item) => [...item.parameters.keys()])));
  expect(parameters("policies")).toEqual(new Set(["q", "qu", "w"]));
  expect(parameters("limits")).toEqual(new Set(["r", "t"]));
});

const ascii = fc.string({
  unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code)),
});
const integer = fc.integer({ min: -999_999_999_999_999, max: 999_999_999_999_999 });
const parameterName = fc.stringMatching(/^[a-z*][a-z0-9_.*-]{0,10}$/);
const anyItem = fc.tuple(
  ascii,
  fc.array(fc.tuple(parameterName, fc.oneof(integer, ascii, fc.boolean())), { maxLength: 4 }),
);
const anyList = fc.array(
  anyItem.map(([name, pairs]): [string, Map<string, BareItem>] => [name, new Map(pairs)]),
  { minLength: 1, maxLength: 5 },
);

it(
  "H16: serialising and parsing a list of Strings with Integers, Strings and Booleans changes neither the list nor its text",
  forAll([anyList], (list) => {
    const text = serializeList(list);
    expect(parseList(text)).toEqual(list);
    expect(serializeList(parseList(text))).toBe(text);
    expect(text).toMatch(/^[\x20-\x7e]+$/);
  }),
);

it(
  "H16: a text that is not a String and a number that is not an Integer are not serialised",
  forAll(
    [fc.string({ unit: "binary" }).filter((text) => /[^\x20-\x7e]/.test(text)), fc.constantFrom(1e15, -1e15, 2 ** 53)],
    (text, number) => {
      expect(() => serializeList([[text, new Map()]])).toThrow(SerializeError);
      expect(() => serializeList([["a", new Map([["a", text]])]])).toThrow(SerializeError);
      expect(() => serializeList([["a", new Map([["q", number]])]])).toThrow(SerializeError);
    },
  ),
);

it(
  "H16: the RateLimit fields of any limits and decisions are in canonical form",
  forAll(
    [
      fc.integer({ min: 1, max: 100_000 }),
      fc.integer({ min: 1, max: 10_000_000 }),
      fc.constantFrom("fixed-window", "sliding-window-counter", "token-bucket", "concurrency"),
      fc.array(fc.integer({ min: 0, max: 2_000_000 }), { minLength: 1, maxLength: 4 }),
    ],
    (limit, windowMs, strategy, costs) => {
      const limits = parseLimits({ limit, window: `${windowMs}ms`, strategy });
      const meter = createMeter(limits);
      for (const [index, cost] of costs.entries()) {
        const fields = rateLimitFields(limits, [meter.consume(cost, startMs + index * 500)]);
        for (const name of fieldNames) {
          const value = fields[name] ?? "";
          expect(serializeList(parseList(value))).toBe(value);
        }
      }
    },
  ),
);

it("H17: r is from 0 to q, also for concurrent requests and bursts", async () => {
  for (const { policies, limits } of exchanges) {
    for (const { name, parameters } of limits) {
      const q = policies.find((each) => each.name === name)?.parameters.get("q");
      expect(Number(parameters.get("r"))).toBeLessThanOrEqual(Number(q));
    }
  }
  const burst = { limit: 5, window: "1m", strategy: "token-bucket", burst: 20 };
  const { send } = headgate({ LIMITS: burst });
  const answers = await Promise.all(Array.from({ length: 30 }, () => send("/", visitor)));
  const remaining = answers.map(({ headers }) => Number(itemsOf(headers.get("RateLimit"))[0]?.parameters.get("r")));
  expect([Math.min(...remaining), Math.max(...remaining)]).toEqual([0, 5]);
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(20);
});

it("H17: r is 0 when a key has spent more than its limit", async () => {
  const cost = { from: "response-header:x-units", reserve: 1, max: 100 };
  const policy = { name: "p", limits: "5/minute", strategy: "fixed-window", cost };
  const { send } = headgate({ POLICIES: [policy] });
  await statusOf(send("/answer?X-Units=50", visitor));
  const response = await send("/", visitor);
  expect([response.status, response.headers.get("RateLimit")]).toEqual([429, '"p";r=0;t=60']);
});
