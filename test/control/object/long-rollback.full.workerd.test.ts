/** A rollback of 12,000 rules on the platform: other calls are answered while it runs. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import type { ControlPlaneMethods } from "../../../src/control/protocol.ts";
import { ada, done, keyRule, mode, sharded } from "./test-plane.ts";

type Plane = {
  readonly [Name in keyof ControlPlaneMethods]: (
    ...parameters: Parameters<ControlPlaneMethods[Name]>
  ) => Promise<Awaited<ReturnType<ControlPlaneMethods[Name]>>>;
};

const rules = 12_000;
const longestMs = 200;
const actor = ada;
const note = "Repeated login attempts with invented names from one data centre";

/**
 * Copies the rule with the number 1, its set and its audit entry. The copies have no objects to push to: in the tests,
 * such objects would share the thread of the control plane.
 */
const copies = [
  `INSERT INTO rules SELECT printf('%08d', i), policy, printf('%043d', i), kind, i, NULL, applied_at,
      json_set(body, '$.id', printf('%08d', i), '$.key', printf('%043d', i), '$.version', i, '$.objects', NULL)
    FROM numbers, rules WHERE rules.version = 1`,
  `INSERT INTO rule_sets SELECT printf('%043d', i), policy, i, i, '[]'
    FROM numbers, rule_sets WHERE rule_sets.version = 1`,
  `INSERT INTO audit SELECT i, at, printf('%08d', i), json_set(body, '$.seq', i, '$.rule', printf('%08d', i),
      '$.after.id', printf('%08d', i), '$.after.key', printf('%043d', i), '$.after.objects', NULL)
    FROM numbers, audit WHERE audit.seq = 1`,
];

it("a rollback of 12,000 rules answers before it is complete, and other calls do not wait for it", async () => {
  const object = env.CONTROL_PLANE.getByName(crypto.randomUUID());
  const plane = object as unknown as Plane;
  done(
    await plane.createRule({
      input: keyRule({ key: "0".repeat(43), objects: sharded, note }),
      actor,
      idempotency: null,
    }),
  );
  await runInDurableObject(object, (_, { storage }) => {
    for (const statement of copies) {
      const numbers = "WITH RECURSIVE numbers(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM numbers WHERE i < ?)";
      storage.sql.exec(statement.replace(" SELECT", ` ${numbers} SELECT`), rules);
    }
  });
  const answer = done(await plane.rollback({ toSeq: 0, actor, note: null }));
  expect(answer).toEqual([]);
  expect(await plane.rollbackProgress()).toMatchObject({ state: "running", total: rules });
  const latencies: number[] = [];
  const timed = async (call: Promise<unknown>): Promise<void> => {
    const sentMs = Date.now();
    await call;
    latencies.push(Date.now() - sentMs);
  };
  while ((await plane.rollbackProgress())?.state === "running") {
    // oxlint-disable no-await-in-loop -- one call after the other
    await timed(plane.policyState("p"));
    await timed(plane.audit({ limit: 50 }));
    await timed(plane.createRule({ input: mode("off"), actor, idempotency: null }));
    await timed(plane.rules({ limit: 50 }));
    // oxlint-enable no-await-in-loop
  }
  const sorted = latencies.toSorted((one, other) => one - other);
  const [median = 0, longest = 0] = [sorted[Math.floor(sorted.length / 2)], sorted.at(-1)];
  expect(sorted.length).toBeGreaterThan(20);
  expect(await plane.rollbackProgress()).toMatchObject({ state: "done", changed: rules });
  expect(median).toBeLessThan(longestMs);
  // The bound is generous, because the machine may also pause for other reasons.
  expect(longest).toBeLessThan(5 * longestMs);
}, 300_000);
