import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { headgate, statusOf } from "./harness.ts";

const startMs = Date.parse("2027-01-15T08:00:00Z");
beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: startMs }));
afterEach(() => void vi.useRealTimers());

it("200 requests of three tenants at once spend no unit too many, and each tenant has its share after one window", async () => {
  const model = { name: "model", key: "global", limits: "90/minute", strategy: "sliding-log" };
  const tenant = { name: "tenant", within: "model", key: "header:X-Tenant", limits: "1000/minute", guaranteed: "fair" };
  const { send } = headgate({ POLICIES: [model, tenant] });
  const ask = (name: string) => statusOf(send("/", { headers: { "X-Tenant": name } }));
  /** How many of the requests are allowed, by tenant. They are sent in turns. */
  const allowed = async (requests: Readonly<Record<string, number>>): Promise<Record<string, number>> => {
    const senders = Object.entries(requests)
      .flatMap(([name, count]) => Array.from({ length: count }, (_each, index) => ({ name, at: index / count })))
      .toSorted((one, other) => one.at - other.at);
    const statuses = await Promise.all(senders.map(({ name }) => ask(name)));
    return Object.fromEntries(
      Object.keys(requests).map((name) => [
        name,
        statuses.filter((status, index) => status === 200 && senders[index]?.name === name).length,
      ]),
    );
  };
  // One tenant alone may use everything, and nothing is taken back from it.
  expect(await allowed({ greedy: 100 })).toEqual({ greedy: 90 });
  vi.setSystemTime(startMs + 59_000);
  expect(await allowed({ one: 1, two: 1 })).toEqual({ one: 0, two: 0 });
  vi.setSystemTime(startMs + 60_000);
  expect(await allowed({ greedy: 140, one: 40, two: 20 })).toEqual({ greedy: 30, one: 30, two: 20 });
  expect(await allowed({ two: 20 })).toEqual({ two: 10 });
});
