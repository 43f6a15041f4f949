/** Steps of the smoke test about the admin API and the console. None of them has credentials. */
import { randomUUID } from "node:crypto";
import { isRecord } from "../../validation/problems.ts";
import type { ReceivedAnswer } from "./bounded-request.ts";
import { passed, require, requireProblem, shownAnswer, skipped, type SmokeStep, urlAt } from "./smoke-step.ts";

const isConsole = ({ text }: ReceivedAnswer): boolean => text.includes('<div id="console">');

/** Cloudflare Access answers in place of the Worker, until an operator has signed in. */
function isAccess({ status, headers }: ReceivedAnswer): boolean {
  const location = headers.get("Location") ?? "";
  return (
    status >= 300 &&
    status < 400 &&
    URL.canParse(location) &&
    new URL(location).hostname.endsWith(".cloudflareaccess.com")
  );
}

export const adminApi: SmokeStep = {
  name: "admin API without a token",
  run: async ({ url, adminPath }, send) => {
    const answer = await send(urlAt(url, `${adminPath}/api/operator`));
    const { status, json } = answer;
    require(!(status === 200 && isRecord(json) && Array.isArray(json["may"])), "the admin API answers without a token");
    if (status !== 401 || !answer.isProblem) {
      return skipped(`no admin API at ${adminPath}/api: ${shownAnswer(answer)}`);
    }
    requireProblem(answer, 401);
    return passed("401");
  },
};

export const consoleElsewhere: SmokeStep = {
  name: "no console on the public host",
  run: async ({ url, adminPath }, send) => {
    const answer = await send(urlAt(url, `${adminPath}/`));
    require(!isConsole(answer), `the console is served on ${url.host}`);
    return passed(String(answer.status));
  },
};

const unknownHost = "the host of the console is unknown: name it with --admin-host";

export const consoleOnAdminHost: SmokeStep = {
  name: "console on the admin host",
  run: async ({ adminUrl, adminPath }, send) => {
    if (adminUrl === null) return skipped(unknownHost);
    const answer = await send(urlAt(adminUrl, `${adminPath}/`));
    if (isAccess(answer)) return passed("Cloudflare Access asks to sign in");
    require(answer.status === 200 &&
      isConsole(answer), `expected the console at ${adminUrl.host}${adminPath}/, got ${shownAnswer(answer)}`);
    const policy = answer.headers.get("Content-Security-Policy") ?? "";
    require(policy.includes("default-src 'none'"), "the console has no Content-Security-Policy");
    return passed("200, with a Content-Security-Policy");
  },
};

export const adminHostProxiesNothing: SmokeStep = {
  name: "admin host is not proxied",
  run: async ({ adminUrl }, send) => {
    if (adminUrl === null) return skipped(unknownHost);
    const answer = await send(urlAt(adminUrl, `/headgate-smoke-${randomUUID()}`));
    if (isAccess(answer)) return skipped("Cloudflare Access answers for this host");
    requireProblem(answer, 404);
    return passed("404");
  },
};
