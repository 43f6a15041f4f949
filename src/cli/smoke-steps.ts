/** The steps of the smoke test and what they check. Keys are random; a charged one is reset, or idle after a minute. */
import { randomBytes, randomUUID } from "node:crypto";
import { parseList } from "structured-headers";
import { isRecord } from "../validation/json.ts";
import { joinPath } from "../validation/problems.ts";
import { messageOf } from "./command.ts";
import { NoAnswer, type ReceivedAnswer, type SentRequest } from "./request.ts";

export interface SmokeTarget {
  readonly url: URL;
  /** The origin of the console; null if unknown. */
  readonly adminUrl: URL | null;
  readonly checkPath: string;
  readonly adminPath: string;
  /** The path of a request to the proxy; null for "/", where a policy may or may not apply. */
  readonly path: string | null;
  /** A token of `/check`; null if unknown. */
  readonly token: string | null;
  /** Null for the only policy. */
  readonly policy: string | null;
  /** Empty for a random key. */
  readonly key: readonly string[];
  /** The most requests to the proxy until one is denied; 0 to send none. */
  readonly mostRequests: number;
  readonly expectedVersion: string;
}

/** @throws NoAnswer when no response comes */
type Send = (url: URL, request: SentRequest) => Promise<ReceivedAnswer>;

/** Returns what it observed. It ends with a `StepEnd` if it fails or is skipped. */
type SmokeStep = (deployment: SmokeTarget & ReturnType<typeof callsTo>) => Promise<string>;

/** If the first step fails, no other step runs. */
export const smokeSteps: Readonly<Record<string, SmokeStep>> = {
  health: async ({ checkPath, ask }) => {
    const answer = await ask(`${checkPath}/health`);
    const errors = shownErrors(answer);
    require(answer.status < 500 || errors === "", `the configuration is invalid: ${errors}`);
    const isHealthy = answer.status === 200 && answer.json["status"] === "ok";
    const advice = "if CHECK_PATH is set, name it with --check-path";
    require(isHealthy, `expected the health of Headgate at ${checkPath}/health, got ${shownAnswer(answer)}; ${advice}`);
    return "200";
  },
  "OpenAPI and version": async ({ checkPath, expectedVersion: expected, ask }) => {
    const answer = await ask(`${checkPath}/openapi.json`);
    const { openapi, info, paths, detail } = answer.json;
    if (answer.status === 404 && String(detail).includes("the binding ASSETS is missing")) {
      skip("the deployment has no static assets, so the version is unknown");
    }
    requireStatus(answer, 200);
    const isDocument = String(openapi).startsWith("3.1.") && isRecord(info) && isRecord(paths);
    require(isDocument, `expected an OpenAPI 3.1 document, got ${shownAnswer(answer)}`);
    const [title, version] = [String(info["title"]), String(info["version"])];
    require(title === "Headgate", `expected the API of Headgate, got ${printable(title)}`);
    const advice = "if that is right, name it with --expect-version";
    require(version === expected, `expected the version ${expected}, got ${printable(version)}; ${advice}`);
    return `Headgate ${expected}`;
  },
  "/check without a valid token": async ({ checkPath, ask }) => {
    for (const token of [null, `not-a-token-${randomUUID()}`]) {
      // oxlint-disable-next-line no-await-in-loop
      const answer = await ask(checkPath, { method: "POST", token, body: { key: randomKey() } });
      requireProblem(answer, 401);
      const challenge = answer.headers.get("WWW-Authenticate") ?? "";
      require(/^Bearer\b/i.test(challenge), "the response has no WWW-Authenticate: Bearer");
    }
    return "401 without a token, and with a wrong one";
  },
  "unknown policy": async ({ askCheck }) => {
    requireProblem(await askCheck(queryOf(`smoke-${randomUUID()}`, [randomKey()])), 404);
    return "404";
  },
  "look, charge and reset": async ({ policy, key: named, askCheck }) => {
    const key = named.length > 0 ? named : [randomKey()];
    const query = queryOf(policy, key);
    const first = await askCheck(query);
    if (first.status === 422) {
      // The policy needs another form of key. This is the user's mistake only if the user named the policy or the key.
      const errors = shownErrors(first);
      require(policy === null && named.length === 0, errors);
      skip(`${errors}; name a key that nobody uses with --policy and --key`);
    }
    const before = remainingIn(first);
    const body = { ...(policy !== null && { policy }), key: key.length === 1 ? key[0] : key };
    const after = remainingIn(await askCheck("", { method: "POST", body }));
    require(after <= before, `a charge left ${after} of ${before} units`);
    requireStatus(await askCheck(query, { method: "DELETE" }), 204);
    const reset = remainingIn(await askCheck(query));
    require(reset >= after, `a reset left ${reset} units, after ${after}`);
    return `${before} units, ${after} after a charge, ${reset} after the reset`;
  },
  "denial by /check": async ({ askCheck }) => {
    const body = { key: `smoke-${randomUUID()}`, limits: "1/minute", strategy: "sliding-log" };
    remainingIn(await askCheck("?deny=429", { method: "POST", body }));
    const denied = await askCheck("?deny=429", { method: "POST", body });
    requireStatus(denied, 429);
    const seconds = sentWaitSeconds(denied.headers);
    const [limit] = sentLimits(denied.headers);
    require(limit?.quota === 1 && limit.remaining === 0, "expected RateLimit with r=0 of q=1");
    require(seconds <= 60, `expected Retry-After of at most 60, got ${seconds}`);
    return `the second check of 1/minute got 429, Retry-After: ${seconds}`;
  },
  "RateLimit fields": async ({ path, ask }) => {
    const answer = await ask(path ?? "/");
    const limits = sentLimits(answer.headers);
    if (limits.length > 0) return `${answer.status}, ${shownLimits(limits)}`;
    const seen = `GET ${path ?? "/"} has no RateLimit fields: ${shownAnswer(answer)}`;
    require(path === null, seen);
    return skip(`${seen}; name a path to which a policy applies with --path`);
  },
  "denial by the proxy": async ({ path, mostRequests, ask }) => {
    if (mostRequests === 0) skip("it would deny this machine for a while: allow it with --until-denied <number>");
    // The last request fails the step, because a limit never has less than 0 units left.
    for (let sent = 1; ; sent++) {
      // Each response says how many requests are left.
      // oxlint-disable-next-line no-await-in-loop
      const answer = await ask(path ?? "/");
      const limits = sentLimits(answer.headers);
      const shown = shownLimits(limits);
      if (answer.status === 429) {
        const seconds = sentWaitSeconds(answer.headers);
        requireProblem(answer, 429);
        const { reason, type } = answer.json;
        const isDenial = typeof reason === "string" && String(type).startsWith("https:");
        require(isDenial, "the problem details have no type and reason of a denial");
        return `request ${sent} got 429 (${shown}), problem details, Retry-After: ${seconds}`;
      }
      require(limits.length > 0, `GET ${path ?? "/"} has no RateLimit fields, so it has no limit`);
      const left = Math.min(...limits.map(({ remaining, quota }) => remaining ?? quota));
      const tooMany = `a denial needs more than the ${mostRequests} requests of --until-denied`;
      require(left < mostRequests - sent, `${shown}: ${tooMany}`);
    }
  },
  "admin API without a token": async ({ adminPath, ask }) => {
    const answer = await ask(`${adminPath}/api/operator`);
    const { status, json, isProblem } = answer;
    require(status !== 200 || !Array.isArray(json["may"]), "the admin API answers without a token");
    if (status !== 401 || !isProblem) skip(`no admin API at ${adminPath}/api: ${shownAnswer(answer)}`);
    requireProblem(answer, 401);
    return "401";
  },
  "no console on the public host": async ({ url, adminPath, ask }) => {
    const answer = await ask(`${adminPath}/`);
    require(!isConsole(answer), `the console is served on ${url.host}`);
    return String(answer.status);
  },
  "console on the admin host": async ({ adminUrl, adminPath, askAdminHost }) => {
    const answer = await askAdminHost(`${adminPath}/`);
    if (isAccess(answer)) return "Cloudflare Access asks to sign in";
    const isServed = answer.status === 200 && isConsole(answer);
    require(isServed, `expected the console at ${adminUrl?.host}${adminPath}/, got ${shownAnswer(answer)}`);
    const policy = answer.headers.get("Content-Security-Policy") ?? "";
    require(policy.includes("default-src 'none'"), "the console has no Content-Security-Policy");
    return "200, with a Content-Security-Policy";
  },
  "admin host is not proxied": async ({ askAdminHost }) => {
    const answer = await askAdminHost(`/headgate-smoke-${randomUUID()}`);
    if (isAccess(answer)) skip("Cloudflare Access answers for this host");
    requireProblem(answer, 404);
    return "404";
  },
};

/** Only `askCheck` sends the token. */
function callsTo({ url, adminUrl, checkPath, token }: SmokeTarget, send: Send) {
  return {
    ask: (path: string, request: SentRequest = {}) => send(new URL(path, url), request),
    askCheck: async (query: string, request: SentRequest = {}) => {
      if (token === null) skip("no token: set CHECK_TOKENS or --token");
      const answer = await send(new URL(checkPath + query, url), { ...request, token });
      require(answer.status !== 401, "the deployment does not accept the token");
      if (answer.status === 403) skip(`the token lacks a right: ${shownAnswer(answer)}`);
      return answer;
    },
    askAdminHost: (path: string) => {
      if (adminUrl === null) skip("the host of the console is unknown: name it with --admin-host");
      return send(new URL(path, adminUrl), {});
    },
  };
}

/** Returns the observation of a step, or the reason why it did not pass. */
export async function runStep(step: SmokeStep, target: SmokeTarget, send: Send) {
  try {
    const detail = await step({ ...target, ...callsTo(target, send) });
    return { outcome: "pass", detail } as const;
  } catch (error) {
    if (error instanceof StepEnd) return { outcome: error.outcome, detail: error.message };
    if (error instanceof NoAnswer) return { outcome: "fail", detail: `no answer: ${error.message}` } as const;
    throw error;
  }
}

/** Ends a step before it passes. */
class StepEnd extends Error {
  readonly outcome: "skipped" | "fail";

  constructor(outcome: "skipped" | "fail", message: string) {
    super(message);
    this.outcome = outcome;
  }
}

function skip(reason: string): never {
  throw new StepEnd("skipped", reason);
}

function require(isMet: boolean, message: string): asserts isMet {
  if (!isMet) throw new StepEnd("fail", message);
}

const requireStatus = (answer: ReceivedAnswer, status: number): void =>
  require(answer.status === status, `expected the status ${status}, got ${shownAnswer(answer)}`);

function requireProblem(answer: ReceivedAnswer, status: number): void {
  requireStatus(answer, status);
  const isProblem = answer.isProblem && answer.json["status"] === status;
  require(isProblem, `expected problem details with the status ${status}, got ${shownAnswer(answer)}`);
}

/** The status, the type of the content, and the detail of a problem. */
function shownAnswer({ status, headers, json, isProblem }: ReceivedAnswer): string {
  const location = headers.get("Location");
  if (location !== null) return `${status} with a redirect to ${printable(location)}`;
  if (isProblem) return `${status} (${printable(String(json["detail"]))})`;
  return `${status} with ${printable(headers.get("Content-Type") ?? "no content type")}`;
}

/** The problems of a configuration, or of a request, in problem details. */
const shownErrors = ({ json: { errors } }: ReceivedAnswer): string =>
  (Array.isArray(errors) ? errors.filter(isRecord) : [])
    .map(({ variable = "", field = "", accepted }) =>
      printable(`${joinPath(String(variable), String(field))}: expected ${String(accepted)}`),
    )
    .join("; ");

const mostPrinted = 300;

/** A server may send control characters, which a terminal would obey. */
export function printable(text: string): string {
  const visible = text.replace(/[^\x20-\x7e\u{a1}-\u{ffff}]/gu, "?");
  return visible.length > mostPrinted ? `${visible.slice(0, mostPrinted)}…` : visible;
}

/** Reads the limits in the RateLimit fields. Fails the step if the fields are malformed or contradict one another. */
export function sentLimits(headers: Headers) {
  const policies = itemsOf(headers, "RateLimit-Policy");
  const limits = itemsOf(headers, "RateLimit");
  for (const name of limits.keys()) {
    require(policies.has(name), `RateLimit lists "${name}", which RateLimit-Policy does not`);
  }
  return [...policies].map(([name, policy]) => {
    const limit = limits.get(name);
    const quota = count(policy, "q", name);
    const windowSeconds = policy.has("w") ? count(policy, "w", name) : null;
    /** Null if `RateLimit` does not list the limit. */
    const remaining = limit === undefined ? null : count(limit, "r", name);
    require((remaining ?? 0) <= quota, `"${name}" has r=${remaining}, which exceeds q=${quota}`);
    const resetSeconds = limit?.has("t") === true ? count(limit, "t", name) : 0;
    const isWithin = windowSeconds === null || resetSeconds <= windowSeconds;
    require(isWithin, `"${name}" has t=${resetSeconds}, which exceeds w=${windowSeconds}`);
    return { name, quota, windowSeconds, remaining };
  });
}

type Parameters = ReadonlyMap<string, unknown>;

function itemsOf(headers: Headers, field: string): Map<string, Parameters> {
  const items = new Map<string, Parameters>();
  for (const [item, parameters] of listOf(headers.get(field) ?? "", field)) {
    require(typeof item === "string", `${field} has an item that is not a string`);
    items.set(item, parameters);
  }
  return items;
}

function listOf(text: string, field: string): ReturnType<typeof parseList> {
  try {
    return parseList(text);
  } catch (error) {
    throw new StepEnd("fail", `${field} is not a structured field: ${messageOf(error)}`);
  }
}

function count(parameters: Parameters, parameter: string, name: string): number {
  const value = parameters.get(parameter);
  const isCount = typeof value === "number" && Number.isInteger(value) && value >= 0;
  require(isCount, `"${name}" has no whole number ${parameter}`);
  return value;
}

/** The limits in a few words, such as `"default" 4 of 5 per 10 s`. */
export const shownLimits = (limits: ReturnType<typeof sentLimits>): string =>
  limits
    .slice(0, 3)
    .map(({ name, quota, windowSeconds, remaining }) => {
      const units = remaining === null ? `${quota}` : `${remaining} of ${quota}`;
      return `"${name}" ${units}${windowSeconds === null ? "" : ` per ${windowSeconds} s`}`;
    })
    .join(", ");

/** The seconds in `Retry-After`, a whole number of at least 1. */
export function sentWaitSeconds(headers: Headers): number {
  const field = headers.get("Retry-After");
  const isSeconds = field !== null && /^[1-9]\d{0,9}$/.test(field);
  require(isSeconds, `expected Retry-After with seconds, got ${field === null ? "none" : `"${field}"`}`);
  return Number(field);
}

function queryOf(policy: string | null, key: readonly string[]): string {
  const query = new URLSearchParams(policy === null ? {} : { policy });
  for (const part of key) query.append("key", part);
  return `?${query.toString()}`;
}

/** The units left in an allowed decision. */
function remainingIn(answer: ReceivedAnswer): number {
  requireStatus(answer, 200);
  const { allowed, limits, reason } = answer.json;
  require(allowed === true, `expected a new key to be allowed, got ${printable(String(reason))}`);
  const counts = (Array.isArray(limits) ? limits.filter(isRecord) : []).map(({ remaining }) => Number(remaining));
  require(counts.length > 0 && counts.every(Number.isInteger), "the decision has no limits");
  return Math.min(...counts);
}

/** A random documentation address (RFC 3849), which no client has. It is a valid value of every key part. */
function randomKey(): string {
  const [first = "", second = ""] = randomBytes(4).toString("hex").match(/.{4}/g) ?? [];
  return `2001:db8:${first}:${second}::1`;
}

const isConsole = ({ text }: ReceivedAnswer): boolean => text.includes('<div id="console">');

/** Cloudflare Access answers in place of the Worker, until an operator has signed in. */
function isAccess({ status, headers }: ReceivedAnswer): boolean {
  const location = URL.parse(headers.get("Location") ?? "");
  return status >= 300 && status < 400 && location?.hostname.endsWith(".cloudflareaccess.com") === true;
}
