/** Changes of rules by another operator, for tests in a browser. */
import { expect } from "vitest";
import type { AuditEntryView, AuditPage, PolicyView, RuleView } from "../../../src/admin/wire.ts";
import { allOperators, type ConsoleWorker } from "./console-worker.ts";

/** A second operator, besides the one who uses the page. */
export const second = { name: "second", token: "the-token-of-the-second-operator" };

export const addSecondOperator = (worker: ConsoleWorker): Promise<void> =>
  worker.setTokens([...allOperators, { ...second, may: ["read", "write"] }]);

/** @throws AssertionError unless the call succeeds */
export async function called<Value>(
  worker: ConsoleWorker,
  method: string,
  path: string,
  body?: object,
  token?: string,
): Promise<Value> {
  const answer = await worker.api(method, path, {
    etag: "*",
    ...(body !== undefined && { body }),
    ...(token !== undefined && { token }),
  });
  expect(answer).toMatchObject({ status: expect.toSatisfy((status) => status < 300) });
  return answer.body as Value;
}

export const policyOf = (worker: ConsoleWorker, name: string): Promise<PolicyView> =>
  called<PolicyView>(worker, "GET", `/policies/${name}`);

/** The effect, end and note of each rule of a policy and of its keys. */
export async function rulesOf(worker: ConsoleWorker, policy: string): Promise<string[]> {
  const { rules } = await called<{ readonly rules: readonly RuleView[] }>(
    worker,
    "GET",
    `/rules?policy=${policy}&limit=200`,
  );
  return rules
    .map(({ kind, mode, limits, entries, expiresAt, note }) =>
      JSON.stringify([kind, mode, limits, entries, expiresAt, note]),
    )
    .toSorted();
}

/** The number of sampled arrivals for a policy, or for one of its keys. */
export async function sampledArrivals(worker: ConsoleWorker, policy: string, key?: string): Promise<number> {
  const { body } = await worker.api("GET", `/samples?policy=${policy}`);
  const lines = String(body).trim().split("\n").slice(1);
  return lines
    .map((line) => JSON.parse(line) as { readonly id: string; readonly arrivals?: unknown[] })
    .filter(({ id }) => key === undefined || id === key)
    .reduce((sum, { arrivals = [] }) => sum + arrivals.length, 0);
}

export async function newestEntry(worker: ConsoleWorker): Promise<AuditEntryView | undefined> {
  const { entries } = await called<AuditPage>(worker, "GET", "/audit?limit=1");
  return entries[0];
}
