/** Calls of `/check`: charges and looks on keys that the proxy also charges, and invalid calls. */
import { bearer } from "./tokens.ts";
import type { Draw } from "./draw.ts";
import { type ExpectedCharge, lookQuotas } from "./ledger.ts";
import { anyCase, nameOf, secretTag, utf8 } from "./people.ts";
import { policies, scenarios } from "./requests.ts";

const ofNobody = [`${secretTag}-a-token`, `${secretTag}-another-token-that-is-longer`] as const;
const onlyLooking = `${secretTag}-a-token-to-look`;

/** The tenants of the callers. Each has its own keys; null stands for the keys of the proxy. */
export const tenants = [null, "first", "second"] as const;
export type Tenant = (typeof tenants)[number];

const tokenOf = (draw: Draw, tenant: Tenant): string =>
  tenant === null ? draw.one(ofNobody) : `${secretTag}-token-of-${tenant}`;

/** The value of `CHECK_TOKENS`. */
export const tokens: readonly unknown[] = [
  ...ofNobody,
  { token: onlyLooking, may: ["look"] },
  { token: `${secretTag}-token-of-first`, tenant: "first" },
  {
    token: `${secretTag}-token-of-second`,
    tenant: "second",
    may: ["check", "look", "forget", "adhoc"],
  },
];

/** The bytes of a call. */
export interface CheckCallBytes {
  readonly method: string;
  readonly bytes: string;
}

/** A valid call. */
export function callOf(
  draw: Draw,
  method: string,
  path: string,
  body?: unknown,
  tenant: Tenant = null,
): CheckCallBytes {
  const text = body === undefined ? "" : utf8(JSON.stringify(body));
  const scheme = draw.one(["Bearer ", "bearer ", "BEARER  "]);
  const lines = [
    "Host: fuzz.example",
    `${anyCase(draw, "Authorization")}: ${scheme}${tokenOf(draw, tenant)}${draw.one(["", " "])}`,
    ...(body === undefined ? [] : [`Content-Type: ${draw.one(jsonTypes)}`]),
    ...(body === undefined ? [] : [`Content-Length: ${text.length}`]),
  ];
  return { method, bytes: `${method} ${path} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n${text}` };
}

const jsonTypes = ["application/json", "Application/JSON", "application/json; charset=utf-8"];

/** The query of a look at a key. */
export function queryOf({ policy, named }: ExpectedCharge): string {
  const keys = (named ?? []).map((text) => `&key=${encodeURIComponent(text)}`);
  return `?policy=${encodeURIComponent(policy)}${keys.join("")}`;
}

/** A key that the proxy also charges, with its charge; null when `/check` cannot name the drawn key. */
export async function sharedKey(draw: Draw): Promise<ExpectedCharge | null> {
  const drawn = await draw.one(scenarios).draw(draw);
  const [charge] = drawn.charges;
  const isUsable = charge !== undefined && charge.named !== null && charge.isDryRun !== true;
  if (!isUsable || drawn.bannable !== undefined || drawn.isBarred === true) return null;
  const quotas = lookQuotas(charge);
  const least = Math.min(...quotas.map(({ limit }) => limit));
  const cost = draw.one([1, 1, 1, 2, 3, least, least + 1]);
  return { ...charge, quotas, cost, finalCost: cost, isPassing: false };
}

/** A call that is invalid in any way, and the requirements on its response. */
export interface InvalidCall extends CheckCallBytes {
  readonly isAuthorized: boolean;
  /** The only correct status, if there is only one. */
  readonly status?: number;
}

const paths = [
  "",
  "",
  "",
  "/",
  "/reserve",
  "/reserve",
  "/settle",
  "/settle",
  "/batch",
  "/forward",
  "/health",
  "/openapi.json",
  `/${secretTag}`,
  "/%00",
  "/../check",
  "//",
  "/reserve/",
  "?",
];
const methods = ["GET", "GET", "POST", "POST", "POST", "DELETE", "HEAD", "PUT", "PATCH", "OPTIONS", "QUERY"];

export async function invalidCall(draw: Draw): Promise<InvalidCall> {
  if (draw.chance(0.05)) return unpermitted(draw);
  const { lines: authorization, isAuthorized } = await authorizationOf(draw);
  // A test of the token needs a call that is otherwise valid.
  if (!isAuthorized && draw.chance(0.5)) return unauthorized(authorization);
  const method = draw.one(methods);
  const hasBody = method === "POST" ? draw.chance(0.95) : draw.chance(0.15);
  const text = hasBody ? bodyOf(draw) : "";
  const isChunked = draw.chance(0.2);
  const lines = [
    "Host: fuzz.example",
    ...authorization,
    ...(draw.chance(0.9) ? [`Content-Type: ${draw.one([...jsonTypes, ...jsonTypes, ...types])}`] : []),
    ...(hasBody ? [isChunked ? "Transfer-Encoding: chunked" : `Content-Length: ${text.length}`] : []),
  ];
  const chunked = text === "" ? "0\r\n\r\n" : `${text.length.toString(16)}\r\n${text}\r\n0\r\n\r\n`;
  const body = hasBody && isChunked ? chunked : text;
  const head = `${method} /check${draw.one(paths)}${queryOfNonsense(draw)} HTTP/1.1`;
  return { method, isAuthorized, bytes: `${head}\r\n${lines.join("\r\n")}\r\n\r\n${body}` };
}

function unauthorized(authorization: readonly string[]): InvalidCall {
  const query = "?policy=header&key=stranger";
  const lines = ["Host: fuzz.example", ...authorization].join("\r\n");
  const bytes = `GET /check${query} HTTP/1.1\r\n${lines}\r\n\r\n`;
  return { method: "GET", isAuthorized: false, status: 401, bytes };
}

/** A call for which the caller's token has no permission. */
function unpermitted(draw: Draw): InvalidCall {
  const [method, path] = draw.one([
    ["POST", ""],
    ["POST", "/reserve"],
    ["POST", "/settle"],
    ["DELETE", "?policy=header&key=stranger"],
  ] as const);
  const body = '{"policy":"header","key":"stranger"}';
  const lines = ["Host: fuzz.example", `Authorization: Bearer ${onlyLooking}`];
  if (method === "POST") lines.push("Content-Type: application/json", `Content-Length: ${body.length}`);
  const head = `${method} /check${path} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n`;
  const bytes = method === "POST" ? head + body : head;
  return { method, isAuthorized: false, status: 403, bytes };
}

const types = [
  "text/plain",
  "application/jsonx",
  "application/x-www-form-urlencoded",
  "",
  ";",
  "application",
  "application/json;",
  "application/json; charset=utf-16",
  "\xff\xfe",
  "multipart/form-data",
];

async function authorizationOf(draw: Draw): Promise<{ lines: string[]; isAuthorized: boolean }> {
  const token = draw.one(ofNobody);
  if (draw.chance(0.75)) return { lines: [`Authorization: Bearer ${token}`], isAuthorized: true };
  const lines = [
    [],
    ["Authorization:"],
    ["Authorization: Bearer"],
    [`Authorization: ${token}`],
    [`Authorization: Basic ${token}`],
    [`Authorization: Bearer ${token.slice(1)}`],
    [`Authorization: Bearer ${token.slice(0, -1)}`],
    [`Authorization: Bearer ${token}x`],
    [`Authorization: Bearer ${token.toUpperCase()}`],
    [`Authorization: Bearer ${token},`],
    [`Authorization: Bearer ${token}`, `Authorization: Bearer ${token}`],
    [`Authorization: Bearer ${token} ${token}`],
    [`Authorization: Bearer "${token}"`],
    [`Authorization: Bearer ${utf8("é")}${token}`],
    [`Authorization: Bearer ${"a".repeat(9_000)}`],
    [...(await bearer(draw)).lines],
  ];
  return { lines: draw.one(lines), isAuthorized: false };
}

const names = policies.map((policy) => String(Reflect.get(policy, "name")));
/** Invalid calls use keys that no check verifies, so that they do not change shared keys. */
const nameless = ["everything", "proxied"];
const strangers = names.filter((name) => !nameless.includes(name));

function queryOfNonsense(draw: Draw): string {
  const parameters = Array.from({ length: draw.one([0, 0, 0, 1, 2, 3, 4]) }, () => parameter(draw));
  return parameters.length === 0 ? "" : `?${parameters.join("&")}`;
}

const parameter = (draw: Draw): string =>
  draw.one([
    `policy=${draw.one(strangers)}`,
    `policy=${draw.one(["", secretTag, "%00", "__proto__", "constructor", "toString", "adhoc"])}`,
    `key=stranger-${draw.hex(4)}`,
    `key=${draw.one(["", "%ff", "%ED%A0%80", "%00", "198.18.0.1", "a".repeat(2_000), "%", "+"])}`,
    `cost=${draw.one(["0", "1", "-1", "1.5", "1e3", "1000000", "1000001", "", "00", "NaN", utf8("９")])}`,
    `deny=${draw.one(["429", "403", "500", "0", "", "429,403", "__proto__"])}`,
    draw.one(["=", "&", "?", "a=b", "limits=1/hour", "__proto__=1", "key[]=a", "tenant=x"]),
  ]);

/** Any value, to replace an expected value. */
function value(draw: Draw, depth = 0): unknown {
  if (depth < 3 && draw.chance(0.2)) {
    return Array.from({ length: draw.below(4) }, () => value(draw, depth + 1));
  }
  if (depth < 3 && draw.chance(0.2)) {
    const fields = Array.from({ length: draw.below(4) }, () => [draw.one(words), value(draw, depth + 1)]);
    return Object.fromEntries(fields) as unknown;
  }
  return draw.one<unknown>([
    null,
    true,
    false,
    0,
    1,
    -1,
    1.5,
    1e21,
    2 ** 53,
    -0,
    1_000_000,
    1_000_001,
    86_400_000,
    1_000,
    "",
    "1",
    "1/hour",
    "5/minute; 9/day",
    "1/0s",
    "∞/hour",
    "\ud800",
    "\0",
    "2001:db8::1",
    `stranger-${draw.hex(4)}`,
    "a".repeat(draw.below(1_100)),
    draw.bytes(8),
    ...words,
  ]);
}

const words = [
  "policy",
  "key",
  "cost",
  "limits",
  "strategy",
  "ttlMs",
  "id",
  "limit",
  "window",
  "name",
  "burst",
  "mode",
  "refill",
  "align",
  "timezone",
  "buckets",
  "edge",
  "elastic",
  "maxDelay",
  "sliding-log",
  "fixed-window",
  "token-bucket",
  "leaky-bucket",
  "concurrency",
  "calendar",
  "__proto__",
  "constructor",
  "toString",
  "valueOf",
  "hasOwnProperty",
  "then",
  "toJSON",
  "length",
];

function limits(draw: Draw): unknown {
  const strategies = words.filter((word) => word.includes("-"));
  const limit = (): unknown => ({
    limit: draw.one([1, 5, 100, 100_000, 100_001, 2 ** 40, value(draw)]),
    window: draw.one(["1h", "1s", "1d", "1mo", "1y", "7 weeks", "1ms", "999999d", value(draw)]),
    strategy: draw.one([...strategies, value(draw)]),
    ...(draw.chance(0.3) && { [draw.one(words)]: value(draw) }),
  });
  return draw.one([limit(), [limit(), limit()], "3/hour", "9/minute, 2/s", value(draw)]);
}

/** JSON with almost the right structure, JSON with any structure, and invalid JSON. */
function bodyOf(draw: Draw): string {
  const kind = draw.below(10);
  if (kind === 0) return draw.bytes(draw.below(200));
  if (kind === 1) return draw.one(broken);
  if (kind === 2) return utf8(JSON.stringify(value(draw)));
  const fields: Record<string, unknown> = { key: `stranger-${draw.hex(3)}` };
  if (draw.chance(0.6)) fields["policy"] = draw.one(strangers);
  if (draw.chance(0.4)) fields["cost"] = draw.one([0, 1, 2, 1_000_000]);
  if (draw.chance(0.4)) fields["ttlMs"] = draw.one([1_000, 5_000, 86_400_000]);
  if (draw.chance(0.3)) fields["limits"] = limits(draw);
  if (draw.chance(0.2)) fields["strategy"] = draw.one(words);
  if (draw.chance(0.2)) fields["id"] = draw.one([idLike(draw), value(draw)]);
  if (draw.chance(0.3)) fields[draw.one(words)] = value(draw);
  if (draw.chance(0.1)) delete fields["key"];
  const text = JSON.stringify(fields);
  return utf8(draw.chance(0.1) ? text.replace("{", '{"__proto__":{"cost":0},') : text);
}

const idLike = (draw: Draw): string =>
  [draw.hex(32), draw.hex(43), draw.one(["", "4", "-1", "1e9"]), "", draw.one(["", "eu"]), draw.hex(43)].join(".");

const broken = [
  "",
  "{",
  "}",
  "null",
  "[]",
  '"',
  "{'key':1}",
  '{"key":"a"}x',
  '\xef\xbb\xbf{"key":"a"}',
  "\xff\xfe{\0}\0",
  '{"key":"\xff"}',
  '{"key":"\\ud800"}',
  '{"key":"a","key":"b"}',
  '{"cost":1e999}',
  '{"cost":-0}',
  `${"[".repeat(7_000)}${"]".repeat(7_000)}`,
  `{"key":"${"a".repeat(17_000)}"}`,
  '{"a":'.repeat(2_500),
];

/** A key of one client and generation, which no other client uses. */
export const exclusiveKey = (draw: Draw, client: number, round: number): string =>
  `${nameOf(draw, 1)}-client-${client}-${round}`;
