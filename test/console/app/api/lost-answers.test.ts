/** Changes that are sent again after their answer was lost: they are made once, and undone to the state before the first attempt. */
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

/** A Worker with one policy, which answers calls as `answer` says. Null loses the answer. */
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
    // The page shows the result of the first attempt by now, so that a new change would be based on it.
    return sender.send("typed", policyChangeBy(after, "mode", patch));
  };

  it("succeeds when it is sent again, and keeps the state before the first attempt", async () => {
    const after = policyWith([made], 5);
    expect(await sendTwice(after)).toEqual({ before, after });
  });

  it("is refused when another operator has changed the same part after it", async () => {
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

it("a refusal of other text between two attempts does not forget the first attempt, so that it makes no second rule", async () => {
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
  /** An audit log with these entries. Answers to undos are lost while `isLost`. */
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

  it("a removed rule is restored by the entry of its removal, and a lost answer is asked for with the same key", async () => {
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

  it("a policy's rules of one kind are returned by all entries of the change", async () => {
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

  it("a change that the log no longer shows is not undone", async () => {
    log([]);
    await expect(undoOf({ before: null, after: rule() })()).rejects.toThrow(/do not have this change/);
  });
});
