/** A sequence of changes with each kind of SQL statement. It must leave the same rows in memory and on the platform. */
import { Plane } from "../../../src/control/object/plane.ts";
import { AuditLog } from "../../../src/control/object/audit-log.ts";
import type { ControlStorage } from "../../../src/control/object/storage.ts";
import { startMs, TestClock } from "../../fakes/isolate.ts";
import { ada, beat, keyRule, mode, noObservers } from "./test-plane.ts";

const actor = ada;

/**
 * Makes the changes in an empty storage. Returns the rows that remain, and whether a failed transaction left any rows.
 */
export async function storageStory(storage: ControlStorage): Promise<unknown> {
  const clock = new TestClock();
  let ids = 0;
  const control = new Plane({
    storage,
    clock,
    push: (_location, _key, policy, _rules, version) =>
      policy === "silent" ? Promise.reject(new Error("lost")) : Promise.resolve(version),
    randomId: () => `-${++ids}`,
    observers: noObservers,
  });
  const idempotency = { key: "once", requestHash: "h" };
  const expiresAtMs = startMs + 5_000;
  await control.createRule({ input: keyRule({ expiresAtMs }), actor, idempotency });
  await control.createRule({ input: keyRule({ policy: "silent" }), actor, idempotency: null });
  await control.createRule({ input: mode("off"), actor, idempotency: null });
  const { epoch, version } = control.policyState("p");
  const parts = [{ kind: "mode", rule: mode("dry-run") }] as const;
  control.changePolicy({ policy: "p", parts, epoch, version, actor, note: null });
  control.beat(beat());
  await control.rollback({ toSeq: 3, actor, note: null });
  let isRolledBack = false;
  try {
    storage.transactionSync(() => {
      storage.sql.exec("DELETE FROM rules");
      throw new Error("a failed change");
    });
  } catch {
    isRolledBack = true;
  }
  await clock.pass(5_000);
  const page = control.rules({ limit: 1 });
  const read = (query: string) => storage.sql.exec(query).toArray();
  return {
    isRolledBack,
    page: [page.items.length, page.cursor],
    rules: read("SELECT id, policy, kind, version, applied_at FROM rules"),
    sets: read("SELECT policy, version, confirmed FROM rule_sets"),
    audit: new AuditLog(storage.sql).page(undefined, 10).items.map(({ action }) => action),
    others: read(
      "SELECT name AS row FROM meta UNION ALL SELECT key FROM idempotency UNION ALL SELECT id FROM deployments",
    ),
  };
}

export const rowsOfStory = {
  isRolledBack: true,
  page: [1, "00000003-3"],
  rules: [
    { id: "00000002-2", policy: "silent", kind: "block", version: 2, applied_at: null },
    { id: "00000003-3", policy: "p", kind: "mode", version: 5, applied_at: startMs },
  ],
  sets: [
    { policy: "p", version: 5, confirmed: 0 },
    { policy: "silent", version: 2, confirmed: 0 },
  ],
  audit: ["expire", "rollback", "replace", "create", "create", "create"],
  others: [
    { row: "epoch" },
    { row: "resend" },
    { row: "rollback" },
    { row: "schema" },
    { row: JSON.stringify([ada.via, ada.name, "once"]) },
    { row: JSON.stringify(["d", null]) },
  ],
};
