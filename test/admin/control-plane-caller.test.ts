/** The deadline of calls to the control plane object. */
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import {
  type ControlPlaneBinding,
  ControlPlaneCaller,
  type ControlPlaneStub,
} from "../../src/admin/control-plane-caller.ts";
import { CallRefused } from "../../src/admin/context.ts";
import { TestClock } from "../fakes/isolate.ts";

beforeEach(() => void vi.spyOn(console, "error").mockReturnValue());
afterEach(() => void vi.restoreAllMocks());

const never = new Promise<never>(() => undefined);

/** The reply to a call; if the call fails, the kind of its problem. */
const resultOf = (calling: Promise<unknown>): Promise<unknown> =>
  calling.catch((error: unknown) => (error instanceof CallRefused ? error.failure : error));

it("a call that hangs is refused after two seconds, and logs one event", async () => {
  const clock = new TestClock();
  const stub = { metrics: () => never } as object as ControlPlaneStub;
  const caller = new ControlPlaneCaller({ getByName: () => stub }, clock);
  let result: unknown = "none";
  const calling = resultOf(caller.call((each) => each.metrics())).then((each) => (result = each));
  await clock.pass(1_999);
  expect(result).toBe("none");
  await clock.pass(1);
  await calling;
  expect(result).toEqual({ kind: "control-plane-silent" });
  expect(vi.mocked(console.error).mock.calls).toEqual([[expect.stringContaining('"event":"control-plane-silent"')]]);
});

it("a call to a class without SQLite storage fails as a mistake in the configuration, not as an outage", async () => {
  const message =
    "This Durable Object is not backed by SQLite storage. Use `new_sqlite_classes` in place of `new_classes`.";
  const caller = new ControlPlaneCaller({ getByName: () => ({}) as ControlPlaneStub }, new TestClock());
  const result = await resultOf(caller.call(() => Promise.reject(new Error(message))));
  const accepted = expect.stringContaining('new_sqlite_classes = ["ControlPlane"]');
  expect(result).toMatchObject({ problems: [{ variable: "CONTROL_PLANE", accepted }] });
  expect(vi.mocked(console.error).mock.calls).toEqual([[expect.stringContaining('"event":"configuration-invalid"')]]);
});

it("each call gets a new stub, because a stub that has failed stays broken", async () => {
  const getByName = vi.fn<() => ControlPlaneStub>(
    () => ({ metrics: async () => "text" }) as object as ControlPlaneStub,
  );
  const caller = new ControlPlaneCaller({ getByName }, new TestClock());
  const replies = [await caller.call((each) => each.metrics()), await caller.call((each) => each.metrics())];
  expect(replies).toEqual(["text", "text"]);
  expect(getByName).toHaveBeenCalledTimes(2);
});

it("the platform repeats calls that only read, but not calls that change state, which could take effect twice", async () => {
  const retries: number[] = [];
  const getByName: ControlPlaneBinding["getByName"] = (_name, { retry }) => {
    retries.push(retry.maxRetries);
    return {} as ControlPlaneStub;
  };
  const caller = new ControlPlaneCaller({ getByName }, new TestClock());
  await caller.call(async () => null);
  await caller.change(async () => ({ kind: "done", value: null }));
  expect(retries).toEqual([1, 0]);
});

it.for([
  [{ kind: "unknown" }, { kind: "unknown-rule" }],
  [
    { kind: "outdated", revision: "3" },
    { kind: "precondition-failed", etag: '"3"' },
  ],
  [{ kind: "key-reused" }, { kind: "idempotency-key-reused" }],
  [{ kind: "replaced" }, { kind: "rollback-replaced" }],
  [
    { kind: "changed-since", seq: 7 },
    { kind: "changed-since", seq: 7 },
  ],
  [{ kind: "nothing-to-undo" }, { kind: "nothing-to-undo" }],
  [
    { kind: "too-many", most: 16 },
    { kind: "rules-full", most: 16 },
  ],
  [
    { kind: "too-large", mostBytes: 32_768 },
    { kind: "rules-too-large", mostBytes: 32_768 },
  ],
  [
    { kind: "done", value: 1 },
    { kind: "done", value: 1 },
  ],
] as const)("a change that is %j gives %j", async ([changed, expected]) => {
  const caller = new ControlPlaneCaller({ getByName: () => ({}) as ControlPlaneStub }, new TestClock());
  expect(await resultOf(caller.change(async () => changed))).toEqual(expected);
});
