/** Proxy requests as bytes: valid requests in unusual forms. */
import { anyStatus, byCost } from "./by-cost.ts";
import { byKey } from "./by-key.ts";
import { byPath } from "./by-path.ts";
import { byRule } from "./by-rule.ts";
import type { Draw } from "./draw.ts";
import type { ExpectedCharge } from "./ledger.ts";
import { type OriginInstruction, askField } from "./origin.ts";
import { anyCase, percentEncoded, nameOf, secretTag, utf8 } from "./people.ts";
import { charge, type DrawnRequest, longWindow, type Scenario } from "./scenarios.ts";

export const scenarios: readonly Scenario[] = [...byKey, ...byCost, ...byRule, ...byPath];

/** A policy that matches every request for the origin, and has charged one unit for each allowed request. */
export const catchAll = { name: "everything", limit: 1_000_000_000 };

export const everything: ExpectedCharge = {
  ...charge(catchAll.name, "all", catchAll.limit),
  named: [],
};

/** The last policy is decided last, so it charges only requests that all other policies allow. */
export const policies: readonly object[] = [
  ...scenarios.flatMap((scenario) => scenario.policies),
  {
    name: catchAll.name,
    key: "global",
    limits: { limit: catchAll.limit, window: longWindow, strategy: "fixed-window" },
  },
].map((policy) => ({ ...policy, timeout: "30s", onError: "closed" }));

export interface FuzzRequest {
  readonly scenario: Scenario;
  readonly drawn: DrawnRequest;
  readonly ask: OriginInstruction;
  readonly method: string;
  readonly bytes: string;
  readonly charges: readonly ExpectedCharge[];
}

const plainMethods = [
  "GET",
  "GET",
  "GET",
  "GET",
  "HEAD",
  "POST",
  "POST",
  "PUT",
  "PATCH",
  "DELETE",
  "OPTIONS",
  "PROPFIND",
  "REPORT",
  "SEARCH",
  "PURGE",
  "COPY",
  "MERGE",
  "LOCK",
  "QUERY",
  "TRACE",
];

export async function requestOf(draw: Draw): Promise<FuzzRequest> {
  const scenario = draw.one(scenarios);
  const drawn = await scenario.draw(draw);
  const method = drawn.method ?? draw.one(plainMethods);
  const ask: OriginInstruction = {
    id: draw.id,
    method,
    status: drawn.ask?.status ?? anyStatus(draw),
    ...drawn.ask,
    ...(drawn.ask === undefined && draw.chance(0.01) && { fails: true }),
    fields: [...(drawn.ask?.fields ?? []), ...oddAnswers(draw)],
  };
  // A request that is never forwarded is never charged.
  const isCharged = drawn.isBarred !== true && method !== "TRACE";
  return {
    scenario,
    drawn,
    ask,
    method,
    bytes: bytesOf(draw, scenario, drawn, ask, method),
    charges: isCharged ? [...drawn.charges, everything] : [],
  };
}

const answers: readonly (readonly (readonly [string, string])[])[] = [
  [["Retry-After", "never"]],
  [
    ["Set-Cookie", `a=${secretTag}`],
    ["Set-Cookie", "b=2"],
  ],
  [
    ["Connection", "X-Odd"],
    ["X-Odd", "1"],
  ],
  [["Content-Encoding", "gzip"]],
  [
    ["Via", "1.1 somewhere"],
    ["Warning", "199 - odd"],
  ],
];

/** The origin's own fields that look like fields of Headgate. */
const lookalikes: readonly (readonly [string, string])[] = [
  ["RateLimit", '"of-the-origin";r=0;t=7'],
  ["RateLimit", "limit=10, remaining=5, reset=3"],
  ["RateLimit-Policy", "10;w=60"],
  ["RateLimit-Policy", '"of-the-origin";q=1;w=7'],
  ["RateLimit", '"unclosed'],
];

function oddAnswers(draw: Draw): readonly (readonly [string, string])[] {
  if (draw.chance(0.05)) return [draw.one(lookalikes)];
  return draw.chance(0.1) ? draw.one(answers) : [];
}

/** Whether the origin sends such fields, in which case Headgate may omit its own. */
export const hasOriginFields = ({ fields = [] }: OriginInstruction): boolean =>
  fields.some(([name]) => name.startsWith("RateLimit"));

function bytesOf(draw: Draw, { name }: Scenario, drawn: DrawnRequest, ask: OriginInstruction, method: string): string {
  const below = drawn.path ?? [nameOf(draw), ...(draw.chance(0.3) ? [oddSegment(draw)] : [])];
  const query = shuffledIn(draw, drawn.query ?? []);
  const path = drawn.target ?? spelledPath(draw, [name, ...below]);
  const target = `${path}${query}${draw.chance(0.03) ? "#part" : ""}`;
  const body = drawn.after === undefined ? bodyOf(draw, method) : { lines: [], text: drawn.after };
  const host = drawn.host ?? draw.one(["fuzz.example", "FUZZ.example", "fuzz.example:81"]);
  const lines = [
    `${anyCase(draw, "Host")}: ${host}`,
    ...(drawn.lines ?? []),
    `X-Ask: ${askField(ask)}`,
    ...harmlessFields(draw, drawn.lines ?? []),
    ...body.lines,
  ];
  return `${method} ${target} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n${body.text}`;
}

const oddSegments = ["%20", "%00", "%ff", "%zz", "%", "a;b=c", "@", ":", "é", "..a", "...", "%2f", "%5C", "*"];
const oddSegment = (draw: Draw): string => utf8(draw.one(oddSegments));

/** One of many spellings of a path. */
function spelledPath(draw: Draw, segments: readonly string[]): string {
  const slash = (): string => {
    if (draw.chance(0.85)) return "/";
    return draw.one(["//", "/./", "/%2e/", `/${secretTag}/../`, "/a/b/%2E%2e/.%2E/", "///"]);
  };
  const path = segments.map((segment) => `${slash()}${draw.chance(0.3) ? escapedOnce(draw, segment) : segment}`);
  return `${path.join("")}${draw.chance(0.1) ? "/" : ""}`;
}

/** Text that is already percent-encoded stays unchanged. Encoding it twice would make another path. */
const escapedOnce = (draw: Draw, segment: string): string =>
  /^[\w-]+$/.test(segment) ? percentEncoded(draw, segment) : segment;

function shuffledIn(draw: Draw, parameters: readonly string[]): string {
  const others = ["q=1", `token=${secretTag}`, "&&", "=", "a[]=%5B", "?", "%", utf8("ü=ö")];
  const all = [...parameters, ...(draw.chance(0.3) ? [draw.one(others)] : [])];
  return all.length === 0 ? draw.one(["", "", "?"]) : `?${all.join("&")}`;
}

function bodyOf(draw: Draw, method: string): { lines: string[]; text: string } {
  const isUsual = ["POST", "PUT", "PATCH", "REPORT", "SEARCH", "QUERY"].includes(method);
  if (!draw.chance(isUsual ? 0.8 : 0.03) || method === "TRACE") return { lines: [], text: "" };
  const text = draw.bytes(draw.one([0, 1, 20, 300, draw.below(3_000)]));
  if (draw.chance(0.6)) return { lines: [`Content-Length: ${text.length}`], text };
  const chunk = text === "" ? "" : `${text.length.toString(16)}${draw.one(["", ";x=y"])}\r\n${text}\r\n`;
  return { lines: ["Transfer-Encoding: chunked"], text: `${chunk}0\r\n\r\n` };
}

const odd: readonly ((draw: Draw) => string)[] = [
  () => "Accept-Encoding: gzip, br",
  () => "Upgrade: websocket",
  () => "Connection: keep-alive, X-Key, CF-Connecting-IP, Authorization, Cookie",
  () => `Forwarded: for=${secretTag};proto=https`,
  () => "True-Client-IP: 203.0.113.99",
  () => "X-Real-IP: 203.0.113.99",
  () => "X-Headgate-Secret: guessed",
  () => `RateLimit: "${secretTag}";r=1`,
  () => "TE: trailers",
  () => "Keep-Alive: timeout=5",
  () => "Range: bytes=0-0",
  () => 'If-None-Match: "1"',
  () => "Via: 1.1 a, 1.1 b",
  () => "CF-Worker: evil.example",
  () => "X-HTTP-Method-Override: GET",
  () => "Content-Type: application/json; charset=\xff",
  () => "Priority: u=1, i",
  (draw) => `X-Long: ${"l".repeat(draw.below(12_000))}`,
  (draw) => `X-Bytes: ${draw.each(draw.bytes(20), visible)}`,
  (draw) => Array.from({ length: 60 }, (_, index) => `X-H${index}: ${draw.below(9)}`).join("\r\n"),
];

const visible = (byte: string): string => (byte >= " " && byte !== "\x7f" ? byte : "x");

/** Fields that do not change the meaning of a request. Each name occurs at most once. */
function harmlessFields(draw: Draw, lines: readonly string[]): string[] {
  const taken = new Set(lines.map((line) => line.split(":", 1)[0]));
  return Array.from({ length: draw.one([0, 0, 1, 2]) }, () => draw.one(odd)(draw)).filter((line) => {
    const [name] = line.split(":", 1);
    const isFree = !taken.has(name);
    taken.add(name);
    return isFree;
  });
}
