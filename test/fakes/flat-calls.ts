/** Converts flat calls to nested ones, for fakes of objects and for tests that inspect calls. */
import { answerChecks, type FlatList } from "../../src/limiter/flat-calls.ts";
import type { CheckCall, CheckReply } from "../../src/limiter/protocol.ts";

/** The arguments of one call `decide`. */
export interface FlatCall {
  readonly texts: readonly string[];
  readonly checks: FlatList;
}

const nothing: CheckReply = { decisions: [], spentAtMs: [] };

/** Several checks in one call. */
export interface BatchCall {
  readonly calls: readonly CheckCall[];
}

const looks = new WeakSet<CheckCall>();

/** Whether a check of `nestedCalls` spends nothing. */
export const isLook = (call: CheckCall): boolean => looks.has(call);

/** The checks of a call, in their order. */
export function nestedCalls(call: FlatCall): CheckCall[] {
  const calls: CheckCall[] = [];
  answerChecks(call.texts, call.checks, ({ provisionalMs = 0, ...check }, spendsNothing) => {
    const nested = provisionalMs > 0 ? { ...check, provisionalMs } : check;
    if (spendsNothing) looks.add(nested);
    calls.push(nested);
    return nothing;
  });
  return calls;
}

/** The replies to the checks of a call, in their order. */
export function flatReplies(call: FlatCall, replies: readonly CheckReply[]): FlatList {
  const left = [...replies];
  return answerChecks(call.texts, call.checks, () => left.shift() ?? nothing);
}

/** The nested call with the same checks: `check` for a single spend, `look` for a single look. */
export const nestedCall = (
  call: FlatCall,
): { name: "check" | "look"; argument: CheckCall } | { name: "batch"; argument: BatchCall } => {
  const calls = nestedCalls(call);
  const [first] = calls;
  return calls.length === 1 && first !== undefined
    ? { name: isLook(first) ? "look" : "check", argument: first }
    : { name: "batch", argument: { calls } };
};

interface Checker {
  check(call: CheckCall): CheckReply | Promise<CheckReply>;
}

/** The method `decide` of an object that decides each check by its method `check`. */
export const decideBy =
  (object: Checker) =>
  async (texts: readonly string[], checks: FlatList): Promise<FlatList> => {
    const call = { texts, checks };
    const replies: CheckReply[] = [];
    for (const each of nestedCalls(call)) {
      // The object decides the checks in their order.
      // oxlint-disable-next-line no-await-in-loop
      replies.push(await object.check(each));
    }
    return flatReplies(call, replies);
  };
