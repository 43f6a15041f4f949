import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { DryRunLines, summaryPauseMs } from "../../src/cli/start-messages.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const denied = (policy: string, key: string): string =>
  JSON.stringify({ event: "dry-run-denied", policy, violated: [policy], key });

it("the first dry-run denial of a policy is printed at once, and later ones are summed up in one line every ten seconds", () => {
  const printed: string[] = [];
  const lines = new DryRunLines((line) => printed.push(line));
  const first = denied("api", "a");
  for (const key of ["a", "a", "b", "a"]) expect(lines.takes(denied("api", key))).toBe(true);
  expect(lines.takes(denied("login", "a"))).toBe(true);
  expect(printed).toEqual([first, denied("login", "a")]);
  vi.advanceTimersByTime(summaryPauseMs);
  expect(printed.splice(2)).toEqual([
    "Dry run of api: 3 more requests of 2 keys would have been denied in the last 10 s.",
  ]);
  lines.takes(first);
  vi.advanceTimersByTime(summaryPauseMs);
  expect(printed.splice(2)).toEqual([
    "Dry run of api: 1 more request of 1 key would have been denied in the last 10 s.",
  ]);
  vi.advanceTimersByTime(summaryPauseMs);
  lines.takes(first);
  expect(printed.splice(2)).toEqual([first]);
});

it("log lines of other events are left to the caller, even if they mention a dry run or are not JSON", () => {
  const lines = new DryRunLines(() => expect.unreachable());
  for (const line of ['{"event":"request-denied"}', "dry-run-denied", '{"event":"dry-run-denied"']) {
    expect(lines.takes(line)).toBe(false);
  }
});
