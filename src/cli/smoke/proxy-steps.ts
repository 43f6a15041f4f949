/** Steps of the smoke test that send requests to the proxy, which charges them to the address of this machine. */
import { isRecord } from "../../validation/problems.ts";
import type { ReceivedAnswer, Send } from "./bounded-request.ts";
import { type SentLimit, sentLimits, sentWaitSeconds, shownLimits } from "./sent-fields.ts";
import {
  passed,
  require,
  requireProblem,
  shownAnswer,
  skipped,
  type SmokeStep,
  type SmokeTarget,
  type StepOutcome,
  urlAt,
} from "./smoke-step.ts";

const proxied = ({ url, path }: SmokeTarget, send: Send): Promise<ReceivedAnswer> => send(urlAt(url, path ?? "/"));

export const proxyFields: SmokeStep = {
  name: "RateLimit fields",
  run: async (target, send) => {
    const answer = await proxied(target, send);
    const limits = sentLimits(answer.headers);
    if (limits.length > 0) return passed(`${answer.status}, ${shownLimits(limits)}`);
    return withoutLimits(target, answer);
  },
};

function withoutLimits({ path }: SmokeTarget, answer: ReceivedAnswer): StepOutcome {
  const seen = `GET ${path ?? "/"} has no RateLimit fields: ${shownAnswer(answer)}`;
  require(path === null, seen);
  return skipped(`${seen}; name a path to which a policy applies with --path`);
}

export const proxyDenial: SmokeStep = {
  name: "denial by the proxy",
  run: async (target, send) => {
    const { mostRequests, path } = target;
    if (mostRequests === 0) {
      return skipped("it would deny this machine for a while: allow it with --until-denied <number>");
    }
    // The last request fails the step, because a limit never has less than 0 units left.
    for (let sent = 1; ; sent++) {
      // Each response says how many requests are left.
      // oxlint-disable-next-line no-await-in-loop
      const answer = await proxied(target, send);
      if (answer.status === 429) return denial(answer, sent);
      const limits = sentLimits(answer.headers);
      require(limits.length > 0, `GET ${path ?? "/"} has no RateLimit fields, so it has no limit`);
      const left = leastRemaining(limits);
      require(left <
        mostRequests -
          sent, `${shownLimits(limits)}: a denial needs more than the ${mostRequests} requests of --until-denied`);
    }
  },
};

const leastRemaining = (limits: readonly SentLimit[]): number =>
  Math.min(...limits.map(({ remaining, quota }) => remaining ?? quota));

function denial(answer: ReceivedAnswer, sent: number): StepOutcome {
  const seconds = sentWaitSeconds(answer.headers);
  const limits = sentLimits(answer.headers);
  requireProblem(answer, 429);
  const { json } = answer;
  require(isRecord(json) &&
    typeof json["reason"] === "string" &&
    String(json["type"]).startsWith("https:"), "the problem details have no type and reason of a denial");
  return passed(`request ${sent} got 429 (${shownLimits(limits)}), problem details, Retry-After: ${seconds}`);
}
