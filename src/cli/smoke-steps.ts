/** The steps of the smoke test as data, and their runner. Keys are random; a charged one is reset, or idle after a minute. */
import { randomBytes, randomUUID } from "node:crypto";
import { isRecord } from "../validation/problems.ts";
import { NoAnswer, type ReceivedAnswer, type SentRequest } from "./request.ts";
import {
  printable,
  require,
  requireProblem,
  requireStatus,
  sentLimits,
  sentWaitSeconds,
  shownAnswer,
  shownErrors,
  shownLimits,
  StepEnd,
} from "./smoke-answer.ts";

export interface SmokeTarget {
  /** The origin of the deployment. */
  readonly url: URL;
  /** The origin of the console; null if unknown. */
  readonly adminUrl: URL | null;
  readonly checkPath: string;
  readonly adminPath: string;
  /** The path of a request to the proxy; null for "/", to which no policy need apply. */
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

export interface SmokeStep {
  readonly name: string;
  /** Which host gets the requests. A step for `/check` gets paths below it, and sends the token. Default: the deployment. */
  readonly at?: "check" | "admin-host";
  /** Returns what it observed. It ends with a `StepEnd` if it fails or is skipped. */
  readonly run: (target: SmokeTarget, ask: Ask) => Promise<string>;
}

type Ask = (path: string, request?: SentRequest) => Promise<ReceivedAnswer>;

/** @throws NoAnswer when no response comes */
export type Send = (url: URL, request: SentRequest) => Promise<ReceivedAnswer>;

export interface StepOutcome {
  readonly outcome: "pass" | "skipped" | "fail";
  /** The observation, or the reason. */
  readonly detail: string;
}

export async function runStep({ at, run }: SmokeStep, target: SmokeTarget, send: Send): Promise<StepOutcome> {
  const { url, adminUrl, checkPath, token } = target;
  const ask: Ask = async (path, request = {}) => {
    if (at === "admin-host") return send(new URL(path, adminUrl ?? url), request);
    if (at !== "check") return send(new URL(path, url), request);
    const answer = await send(new URL(checkPath + path, url), { ...request, token });
    require(answer.status !== 401, "the deployment does not accept the token");
    if (answer.status === 403) skip(`the token lacks a right: ${shownAnswer(answer)}`);
    return answer;
  };
  try {
    if (at === "check" && token === null) skip("no token: set CHECK_TOKENS or --token");
    if (at === "admin-host" && adminUrl === null) {
      skip("the host of the console is unknown: name it with --admin-host");
    }
    return { outcome: "pass", detail: await run(target, ask) };
  } catch (error) {
    if (error instanceof StepEnd) return { outcome: error.outcome, detail: error.message };
    if (error instanceof NoAnswer) return { outcome: "fail", detail: `no answer: ${error.message}` };
    throw error;
  }
}

function skip(reason: string): never {
  throw new StepEnd("skipped", reason);
}

/** No other step runs unless the first one passes. */
export const smokeSteps: readonly SmokeStep[] = [
  {
    name: "health",
    run: async ({ checkPath }, ask) => {
      const answer = await ask(`${checkPath}/health`);
      const errors = shownErrors(answer);
      require(answer.status < 500 || errors === "", `the configuration is invalid: ${errors}`);
      const isHealthy = answer.status === 200 && answer.json["status"] === "ok";
      const advice = "if CHECK_PATH is set, name it with --check-path";
      require(isHealthy, `expected the health of Headgate at ${checkPath}/health, got ${shownAnswer(answer)}; ${advice}`);
      return "200";
    },
  },
  {
    name: "OpenAPI and version",
    run: async ({ checkPath, expectedVersion: expected }, ask) => {
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
  },
  {
    name: "/check without a valid token",
    run: async ({ checkPath }, ask) => {
      for (const token of [null, `not-a-token-${randomUUID()}`]) {
        // oxlint-disable-next-line no-await-in-loop
        const answer = await ask(checkPath, { method: "POST", token, body: { key: randomKey() } });
        requireProblem(answer, 401);
        const challenge = answer.headers.get("WWW-Authenticate") ?? "";
        require(/^Bearer\b/i.test(challenge), "the response has no WWW-Authenticate: Bearer");
      }
      return "401 without a token, and with a wrong one";
    },
  },
  {
    name: "unknown policy",
    at: "check",
    run: async (_, ask) => {
      requireProblem(await ask(queryOf(`smoke-${randomUUID()}`, [randomKey()])), 404);
      return "404";
    },
  },
  {
    name: "look, charge and reset",
    at: "check",
    run: async ({ policy, key: named }, ask) => {
      const key = named.length > 0 ? named : [randomKey()];
      const query = queryOf(policy, key);
      const first = await ask(query);
      if (first.status === 422) {
        // The policy needs another key: a mistake only if the user named the policy or the key.
        const errors = shownErrors(first);
        require(policy === null && named.length === 0, errors);
        skip(`${errors}; name a key that nobody uses with --policy and --key`);
      }
      const before = remainingIn(first);
      const body = { ...(policy !== null && { policy }), key: key.length === 1 ? key[0] : key };
      const after = remainingIn(await ask("", { method: "POST", body }));
      require(after <= before, `a charge left ${after} of ${before} units`);
      requireStatus(await ask(query, { method: "DELETE" }), 204);
      const reset = remainingIn(await ask(query));
      require(reset >= after, `a reset left ${reset} units, after ${after}`);
      return `${before} units, ${after} after a charge, ${reset} after the reset`;
    },
  },
  {
    name: "denial by /check",
    at: "check",
    run: async (_, ask) => {
      const body = { key: `smoke-${randomUUID()}`, limits: "1/minute", strategy: "sliding-log" };
      remainingIn(await ask("?deny=429", { method: "POST", body }));
      const denied = await ask("?deny=429", { method: "POST", body });
      requireStatus(denied, 429);
      const seconds = sentWaitSeconds(denied.headers);
      const [limit] = sentLimits(denied.headers);
      require(limit?.quota === 1 && limit.remaining === 0, "expected RateLimit with r=0 of q=1");
      require(seconds <= 60, `expected Retry-After of at most 60, got ${seconds}`);
      return `the second check of 1/minute got 429, Retry-After: ${seconds}`;
    },
  },
  {
    name: "RateLimit fields",
    run: async ({ path }, ask) => {
      const answer = await ask(path ?? "/");
      const limits = sentLimits(answer.headers);
      if (limits.length > 0) return `${answer.status}, ${shownLimits(limits)}`;
      const seen = `GET ${path ?? "/"} has no RateLimit fields: ${shownAnswer(answer)}`;
      require(path === null, seen);
      return skip(`${seen}; name a path to which a policy applies with --path`);
    },
  },
  {
    name: "denial by the proxy",
    run: async ({ path, mostRequests }, ask) => {
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
  },
  {
    name: "admin API without a token",
    run: async ({ adminPath }, ask) => {
      const answer = await ask(`${adminPath}/api/operator`);
      const { status, json, isProblem } = answer;
      require(status !== 200 || !Array.isArray(json["may"]), "the admin API answers without a token");
      if (status !== 401 || !isProblem) skip(`no admin API at ${adminPath}/api: ${shownAnswer(answer)}`);
      requireProblem(answer, 401);
      return "401";
    },
  },
  {
    name: "no console on the public host",
    run: async ({ url, adminPath }, ask) => {
      const answer = await ask(`${adminPath}/`);
      require(!isConsole(answer), `the console is served on ${url.host}`);
      return String(answer.status);
    },
  },
  {
    name: "console on the admin host",
    at: "admin-host",
    run: async ({ adminUrl, adminPath }, ask) => {
      const answer = await ask(`${adminPath}/`);
      if (isAccess(answer)) return "Cloudflare Access asks to sign in";
      const isServed = answer.status === 200 && isConsole(answer);
      require(isServed, `expected the console at ${adminUrl?.host}${adminPath}/, got ${shownAnswer(answer)}`);
      const policy = answer.headers.get("Content-Security-Policy") ?? "";
      require(policy.includes("default-src 'none'"), "the console has no Content-Security-Policy");
      return "200, with a Content-Security-Policy";
    },
  },
  {
    name: "admin host is not proxied",
    at: "admin-host",
    run: async (_, ask) => {
      const answer = await ask(`/headgate-smoke-${randomUUID()}`);
      if (isAccess(answer)) skip("Cloudflare Access answers for this host");
      requireProblem(answer, 404);
      return "404";
    },
  },
];

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

/** An address for documentation (RFC 3849), which no client has. It is a valid value of every key part. */
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
