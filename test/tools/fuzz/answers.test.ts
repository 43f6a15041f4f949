import { describe, expect, it } from "vitest";
import { responderOf, failureOf, invalidDecision } from "./answers.ts";
import type { Answer } from "./connection.ts";
import { WorkerdLog } from "./log.ts";
import { secretTag } from "./people.ts";

const answer = (status: number, fields: Record<string, string>): Answer => ({
  status,
  headers: new Map(Object.entries(fields)),
  body: "",
});

const problem = { "content-type": "application/problem+json" };
const ofOrigin = { "x-fuzz-origin": "7" };

describe("a response with status 5xx", () => {
  it("a 5xx of the origin is not a failure of Headgate", () => {
    expect(responderOf(answer(500, ofOrigin))).toBe("the origin");
    expect(failureOf(answer(500, ofOrigin))).toBeNull();
  });

  it.for<[string, Answer]>([
    ["problem details of status 500", answer(500, problem)],
    ["an uncaught exception", answer(500, {})],
    ["the decision did not arrive in time", answer(503, problem)],
    ["the origin was unreachable", answer(502, problem)],
  ])("a 5xx is a failure of Headgate: %s", ([, given]) => {
    expect(failureOf(given)).toMatch(/ answered 50\d/);
  });

  it("a 5xx is accepted only if the request provokes it", () => {
    expect(failureOf(answer(502, problem), { isUnreachable: true })).toBeNull();
    expect(failureOf(answer(500, problem), { isUnreachable: true })).not.toBeNull();
    expect(failureOf(answer(500, {}), { isConnect: true })).toBeNull();
    expect(failureOf(answer(501, { "content-type": "text/plain" }))).toBeNull();
  });
});

describe("a decision in a response", () => {
  const limit = { limit: 5, capacity: 5, remaining: 5 };

  it("a decision is invalid if the remaining units of a limit are below 0 or above its capacity", () => {
    expect(invalidDecision({ limits: [limit, { ...limit, remaining: 0 }] })).toBeNull();
    for (const remaining of [-1, 6, 0.5]) {
      expect(invalidDecision({ limits: [{ ...limit, remaining }] })).not.toBeNull();
    }
  });
});

describe("a log of workerd", () => {
  const faultsOf = (line: string): number => {
    const log = new WorkerdLog();
    log.add(`${line}\n`);
    return log.faults().length;
  };

  it("the log may contain events of dry runs and of origin failures", () => {
    expect(faultsOf('{"event":"dry-run-denied","policy":"dry","violated":[]}')).toBe(0);
  });

  it.each([
    `{"event":"dry-run-denied","policy":"${secretTag}-1"}`,
    '{"event":"origin-unreachable","error":"no answer from 203.0.113.7"}',
    '{"event":"dry-run-denied","key":"2001:db8::1"}',
    '{"event":"origin-unreachable","error":"Bearer eyJhbGciOiJIUzI1NiJ9"}',
    '{"event":"internal-error","error":"TypeError"}',
    '{"event":"object-silent"}',
  ])("the log must not contain client data or errors: %s", (line) => {
    expect(faultsOf(line)).toBe(1);
  });
});
