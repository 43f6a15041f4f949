/** Steps of the smoke test about `/check`. They use random keys, and reset them. */
import { randomBytes, randomUUID } from "node:crypto";
import { isRecord } from "../../validation/problems.ts";
import type { ReceivedAnswer, Send, SentRequest } from "./bounded-request.ts";
import { sentLimits, sentWaitSeconds } from "./sent-fields.ts";
import {
  passed,
  printable,
  require,
  requireProblem,
  requireStatus,
  shownAnswer,
  shownErrors,
  skipped,
  type SmokeStep,
  type SmokeTarget,
  StepFailure,
  type StepOutcome,
  urlAt,
} from "./smoke-step.ts";

/** The first step: whether Headgate answers at all. */
export const health: SmokeStep = {
  name: "health",
  run: async ({ url, checkPath }, send) => {
    const answer = await send(urlAt(url, `${checkPath}/health`));
    const { status, json } = answer;
    const errors = shownErrors(answer);
    require(status < 500 || errors === "", `the configuration is invalid: ${errors}`);
    require(status === 200 &&
      isRecord(json) &&
      json["status"] ===
        "ok", `expected the health of Headgate at ${checkPath}/health, got ${shownAnswer(answer)}; if CHECK_PATH is set, name it with --check-path`);
    return passed("200");
  },
};

export const openApi: SmokeStep = {
  name: "OpenAPI and version",
  run: async ({ url, checkPath, expectedVersion }, send) => {
    const answer = await send(urlAt(url, `${checkPath}/openapi.json`));
    const { openapi, info, paths, detail } = isRecord(answer.json) ? answer.json : {};
    const hasAssets = answer.status !== 404 || !String(detail).includes("the binding ASSETS is missing");
    if (!hasAssets) return skipped("the deployment has no static assets, so the version is unknown");
    requireStatus(answer, 200);
    require(String(openapi).startsWith("3.1.") &&
      isRecord(info) &&
      isRecord(paths), `expected an OpenAPI 3.1 document, got ${shownAnswer(answer)}`);
    const { title, version } = info;
    require(title === "Headgate", `expected the API of Headgate, got ${printable(String(title))}`);
    require(version ===
      expectedVersion, `expected the version ${expectedVersion}, got ${printable(String(version))}; if that is right, name it with --expect-version`);
    return passed(`Headgate ${expectedVersion}`);
  },
};

export const unauthorized: SmokeStep = {
  name: "/check without a valid token",
  run: async ({ url, checkPath }, send) => {
    const tokens = [null, `not-a-token-${randomUUID()}`];
    for (const token of tokens) {
      const body = { key: randomKey() };
      // oxlint-disable-next-line no-await-in-loop
      const answer = await send(urlAt(url, checkPath), { method: "POST", token, body });
      requireProblem(answer, 401);
      const challenge = answer.headers.get("WWW-Authenticate") ?? "";
      require(/^Bearer\b/i.test(challenge), "the response has no WWW-Authenticate: Bearer");
    }
    return passed("401 without a token, and with a wrong one");
  },
};

/** A step that needs a token. It is skipped without one, and if the token lacks a right. */
const withToken = (
  name: string,
  run: (target: SmokeTarget, call: CallWithToken) => Promise<StepOutcome>,
): SmokeStep => ({
  name,
  run: async (target, send) => {
    const { token, url, checkPath } = target;
    if (token === null) return skipped("no token: set CHECK_TOKENS or --token");
    try {
      return await run(target, async (query, request) => {
        const answer = await send(urlAt(url, checkPath + query), { ...request, token });
        if (answer.status === 401) throw new StepFailure("the deployment does not accept the token");
        if (answer.status === 403) throw new MissingRight(shownAnswer(answer));
        return answer;
      });
    } catch (error) {
      if (error instanceof MissingRight) return skipped(`the token lacks a right: ${error.message}`);
      throw error;
    }
  },
});

type CallWithToken = (query: string, request?: SentRequest) => ReturnType<Send>;

class MissingRight extends Error {}

export const unknownPolicy = withToken("unknown policy", async (_, call) => {
  const query = queryOf(`smoke-${randomUUID()}`, [randomKey()]);
  requireProblem(await call(query), 404);
  return passed("404");
});

export const decisions = withToken("look, charge and reset", async (target, call) => {
  const { policy } = target;
  const key = target.key.length > 0 ? target.key : [randomKey()];
  const named = policy === null ? {} : { policy };
  const query = queryOf(policy, key);
  const first = await call(query);
  if (first.status === 422) return unfitKey(target, first);
  const before = remainingIn(first);
  const body = { ...named, key: key.length === 1 ? key[0] : key };
  const charged = await call("", { method: "POST", body });
  const after = remainingIn(charged);
  require(after <= before, `a charge left ${after} of ${before} units`);
  requireStatus(await call(query, { method: "DELETE" }), 204);
  const reset = remainingIn(await call(query));
  require(reset >= after, `a reset left ${reset} units, after ${after}`);
  return passed(`${before} units, ${after} after a charge, ${reset} after the reset`);
});

function queryOf(policy: string | null, key: readonly string[]): string {
  const query = new URLSearchParams(policy === null ? {} : { policy });
  for (const part of key) query.append("key", part);
  return `?${query.toString()}`;
}

/** The policy needs another key: a mistake only if the user named the policy or the key. */
function unfitKey({ policy, key }: SmokeTarget, answer: ReceivedAnswer): StepOutcome {
  const errors = shownErrors(answer);
  require(policy === null && key.length === 0, errors);
  return skipped(`${errors}; name a key that nobody uses with --policy and --key`);
}

/** @throws StepFailure unless the answer is an allowed decision */
function remainingIn(answer: ReceivedAnswer): number {
  requireStatus(answer, 200);
  const { allowed, limits, reason } = isRecord(answer.json) ? answer.json : {};
  require(allowed === true, `expected a new key to be allowed, got ${printable(String(reason))}`);
  const counts = (Array.isArray(limits) ? limits.filter(isRecord) : []).map(({ remaining }) => Number(remaining));
  require(counts.length > 0 && counts.every(Number.isInteger), "the decision has no limits");
  return Math.min(...counts);
}

export const checkDenial = withToken("denial by /check", async (_, call) => {
  const body = { key: `smoke-${randomUUID()}`, limits: "1/minute", strategy: "sliding-log" };
  remainingIn(await call("?deny=429", { method: "POST", body }));
  const denied = await call("?deny=429", { method: "POST", body });
  requireStatus(denied, 429);
  const seconds = sentWaitSeconds(denied.headers);
  const [limit] = sentLimits(denied.headers);
  require(limit?.quota === 1 && limit.remaining === 0, "expected RateLimit with r=0 of q=1");
  require(seconds <= 60, `expected Retry-After of at most 60, got ${seconds}`);
  return passed(`the second check of 1/minute got 429, Retry-After: ${seconds}`);
});

/** An address for documentation (RFC 3849), which no client has. It is a valid value of every key part. */
function randomKey(): string {
  const [first = "", second = ""] = randomBytes(4).toString("hex").match(/.{4}/g) ?? [];
  return `2001:db8:${first}:${second}::1`;
}
