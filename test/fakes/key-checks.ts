/** The checks of an isolate, as it sends them in flat calls, and the replies as it decodes them. */
import type { checkKinds, FlatList } from "../../src/limiter/flat-calls.ts";
import { decodeReplies } from "../../src/limiter/isolate/key-group.ts";
import { ChargeResult, type KeyCheck } from "../../src/limiter/isolate/outcome.ts";
import { RequestScope } from "../../src/limiter/isolate/newer-rules-retry.ts";
import type { Charge, CheckReply } from "../../src/limiter/protocol.ts";
import { readPolicy } from "../../src/policy/policy.ts";
import { type FlatCall, nestedCalls } from "./flat-calls.ts";

const written = { name: "p", limits: "2/minute", strategy: "fixed-window" };
// Read here and not by a fake that imports vitest, because a Worker of the system tests imports this file.
const base = readPolicy("POLICIES", "", written, () => undefined);

/** The check of an isolate that makes these charges. */
export const keyCheckOf = (
  charges: readonly Charge[],
  kind: (typeof checkKinds)[number] = "relaxed",
  provisionalMs = 0,
  key = "k",
): KeyCheck => ({
  group: charges.map(({ policy: name, limits, cost, isDryRun = false, ban = null, rules = null }) => {
    const durability = kind === "confirmed" ? kind : "relaxed";
    if (base === null) throw new Error("the policy is valid");
    const policy = { ...base, name, limits, isDryRun, ban, rules, durability } as const;
    return { policy, partitionKey: key, cost };
  }),
  result: new ChargeResult(),
  scope: new RequestScope(() => undefined),
  provisionalMs,
  isLook: kind === "look",
});

/** The replies of an object, with the errors among them, in the order of the checks. */
export const decodedReplies = (call: FlatCall, replies: FlatList): (CheckReply | Error)[] =>
  decodeReplies(
    nestedCalls(call).map(({ charges }) => keyCheckOf(charges)),
    replies,
  );

/** The replies of an object that could decide all checks, in their order. */
export const nestedReplies = (call: FlatCall, replies: FlatList): CheckReply[] =>
  decodedReplies(call, replies).map((reply) => {
    if (reply instanceof Error) throw reply;
    return reply;
  });
