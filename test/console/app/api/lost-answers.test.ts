/**
 * Changes that are sent again after their response was lost: they are made once, and undoing them restores the state
 * before the first attempt.
 */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { PolicyView, RuleView } from "../../../../src/admin/wire.ts";
import {
  changeBy,
  isResultOfPatch,
  policyChangeBy,
  type PolicyUpdate,
  type RuleChange,
  Sender,
  undoOf,
  undoOfPolicy,
} from "../../../../src/console/app/api/rules.ts";
import { rule } from "../audit-entries.ts";

const stored = (fields: Partial<RuleView> = {}): RuleView => ({
  ...rule(),
  state: "applied",
  appliedAt: null,
  ...fields,
});
const policyWith = (rules: readonly RuleView[], version: number): PolicyView =>
  ({ name: "api", rules, epoch: 1, version }) as unknown as PolicyView;

/**
 * A Worker with one policy, which answers calls with the result of `answer`. If the result is null, the response is
 * lost.
 */
function worker(answer: (method: string, path: string) => Response | null) {
  const sent: { method: string; path: string; key: string | null }[] = [];
  vi.stubGlobal("fetch", (path: string, init: RequestInit) => {
    const { method = "GET" } = init;
    sent.push({ method, path, key: new Headers(init.headers).get("Idempotency-Key") });
    const response = answer(method, path);
    return response === null ? Promise.reject(new TypeError("lost")) : Promise.resolve(response);
  });
  return sent;
}
const outdated = (): Response => Response.json({ title: "", status: 412, detail: "It has changed." }, { status: 412 });

beforeEach(() => vi.useFakeTimers({ toFake: ["Date"], now: Date.parse("2026-11-22T12:00:00Z") }));
afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

describe("a change of a policy whose answer was lost", () => {
  const before = policyWith([], 4);
  const patch = { mode: "dry-run", for: "1h" } as const;
  const expiresAt = "2026-11-22T13:00:00.000Z";
  const made = stored({ expiresAt });

  const sendTwice = async (after: PolicyView): Promise<PolicyUpdate> => {
    let patches = 0;
    worker((method) => {
      if (method === "GET") return Response.json(after);
      patches += 1;
      return patches === 1 ? null : outdated();
    });
    const sender = new Sender<PolicyUpdate>();
    const first = policyChangeBy(before, "mode", patch);
    await expect(sender.send("typed", first)).rejects.toThrow(/cannot be reached/);
    // The page already shows the result of the first attempt, so that a new change would be based on this result.
    return sender.send("typed", policyChangeBy(after, "mode", patch));
  };

  it("a change that is sent again after a lost response succeeds, and keeps the state before the first attempt", async () => {
    const after = policyWith([made], 5);
    expect(await sendTwice(after)).toEqual({ before, after });
  });

  it("a change that is sent again is refused when another operator has changed the same part in between", async () => {
    const after = policyWith([stored({ mode: "off", expiresAt, revision: 2 })], 6);
    await expect(sendTwice(after)).rejects.toThrow("It has changed.");
  });

  it.each([
    ["is recognized when a rule of another kind is added after it", [made, stored({ id: "r2", kind: "deny" })], true],
    ["is not recognized in another mode", [stored({ mode: "off", expiresAt })], false],
    ["is not recognized in the same mode without an end", [stored()], false],
    ["is not recognized in the same mode with another note", [stored({ expiresAt, note: "Why" })], false],
    ["is not recognized when another rule sets the mode, too", [made, stored({ id: "r2" })], false],
    ["is not recognized when no rule sets the mode", [], false],
  ])("%s", (_, rules, isResult) => {
    expect(isResultOfPatch({ before, after: policyWith(rules, 9) }, "mode", patch)).toBe(isResult);
  });

  it("the removal of the limits is recognized by their absence, and new limits by their revision", () => {
    const { mode: _, ...limits }: RuleView = stored({
      kind: "limits",
      limits: "5/1m",
      strategy: "sliding-log",
    });
    const update = { before: policyWith([limits], 4), after: policyWith([], 5) };
    expect(isResultOfPatch(update, "limits", { limits: null })).toBe(true);
    const changed: RuleView = { ...limits, limits: "9/1m", revision: 2 };
    const replaced = { ...update, after: policyWith([changed], 5) };
    expect(isResultOfPatch(replaced, "limits", { limits: null })).toBe(false);
    const sent = { limits: "9/1m", strategy: "sliding-log" };
    expect(isResultOfPatch(replaced, "limits", sent)).toBe(true);
    expect(isResultOfPatch(replaced, "limits", { limits: "9/1m" })).toBe(false);
  });
});

it("a refusal of a different text between two attempts does not erase the first attempt, so that no second rule is created", async () => {
  const answers = [
    null,
    null,
    Response.json({ title: "", status: 422, detail: "Invalid." }, { status: 422 }),
    Response.json(stored(), { status: 201 }),
  ];
  const sent = worker(() => answers.shift() ?? null);
  const sender = new Sender<RuleChange>();
  const plan = { kind: "create", rule: { policy: "api", kind: "deny" } } as const;
  await expect(sender.send("one", changeBy(plan))).rejects.toThrow(/cannot be reached/);
  await expect(sender.send("other", changeBy(plan))).rejects.toThrow("Invalid.");
  await sender.send("one", changeBy(plan));
  const keys = sent.map(({ key }) => key);
  expect(keys).toEqual([keys[0], keys[0], keys[2], keys[0]]);
  expect(keys[2]).not.toBe(keys[0]);
});

describe("an undo", () => {
  /** An audit log with these entries. Responses to undo calls are lost while `isLost` is true. */
  const log = (entries: readonly object[]) => {
    const state = { isLost: false };
    const bodies: unknown[] = [];
    vi.stubGlobal("fetch", (path: string, { body, headers }: RequestInit) => {
      if (path.includes("audit?")) return Promise.resolve(Response.json({ entries, next: null }));
      bodies.push([JSON.parse(body as string), new Headers(headers).get("Idempotency-Key")]);
      return state.isLost
        ? Promise.reject(new TypeError("lost"))
        : Promise.resolve(Response.json({ entries: [{ seq: 9 }], rules: [] }));
    });
    return { bodies, state };
  };

  it("undoing the removal of a rule restores it, and the call is repeated with the same idempotency key after a lost response", async () => {
    const removed = rule();
    const { bodies, state } = log([
      { seq: 8, rule: "other", before: removed, after: null },
      { seq: 7, rule: removed.id, before: removed, after: null },
      { seq: 6, rule: removed.id, before: null, after: removed },
    ]);
    const undo = undoOf({ before: removed, after: null });
    state.isLost = true;
    await expect(undo()).rejects.toThrow(/cannot be reached/);
    state.isLost = false;
    expect(await undo()).toEqual([{ seq: 9 }]);
    expect(bodies).toEqual([[{ entries: [7] }, expect.any(String)], bodies[0]]);
  });

  it("undoing a change of a policy's rules of one kind undoes all its audit entries", async () => {
    const entry = (seq: number, fields: object = {}) => ({
      seq,
      policy: "api",
      keyId: null,
      before: null,
      after: rule(),
      ...fields,
    });
    const { kind } = rule();
    const { bodies } = log([
      entry(8),
      entry(7, { before: rule(), after: null }),
      entry(6),
      entry(6, { policy: "other" }),
      entry(5, { after: { ...rule(), kind: "overrides" } }),
      entry(4),
    ]);
    await undoOfPolicy({ before: policyWith([], 4), after: policyWith([], 7) }, kind as "mode")();
    expect(bodies).toMatchObject([[{ entries: [7, 6] }, {}]]);
  });

  it("a change that the audit log no longer contains cannot be undone", async () => {
    log([]);
    await expect(undoOf({ before: null, after: rule() })()).rejects.toThrow(/do not have this change/);
  });
});
