/** Compares the table in docs/explanation/durability.md with the limits whose state an object stores. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { createMeter } from "../../src/strategies/index.ts";
import { call, charge } from "../fakes/calls.ts";
import { TestObject } from "../fakes/test-object.ts";

const page = readFileSync("docs/explanation/durability.md", "utf8");

const rows = [
  ...page.matchAll(/^\| (\d+)\/(\w+) +\| `([a-z-]+)`(?:, `burst = (\d+)`)? +\| (\d+) s +\| (yes|no) +\|$/gm),
];

test("the page about durability has a table that says of at least six limits whether their state is stored", () => {
  expect(rows.length).toBeGreaterThanOrEqual(6);
});

test.each(rows.map(([row, ...cells]) => [row, cells] as const))(
  "the row %s states how long the limit's state is kept and whether it is stored",
  async (_, [limit, window = "", strategy = "", burst, seconds, isWritten]) => {
    const fields = {
      limit: Number(limit),
      window,
      ...(burst !== undefined && { burst: Number(burst) }),
    };
    const each = charge(fields, 1, "p", strategy);
    expect(createMeter(each.limits).retentionMs).toBe(Number(seconds) * 1_000);
    const object = new TestObject();
    object.limiter.check(call(each));
    const [names] = await object.stored();
    expect(names).toEqual(isWritten === "yes" ? ["k k"] : []);
  },
);
