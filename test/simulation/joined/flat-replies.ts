/** The replies to a flat call, with the errors among them. */
import {
  chargeText,
  decodeReplies,
  type FlatCall,
  type FlatList,
} from "../../../src/limiter/flat-calls.ts";
import type { CheckReply } from "../../../src/limiter/protocol.ts";
import { nestedCalls } from "../../fakes/flat-calls.ts";

export const decodedReplies = (call: FlatCall, replies: FlatList): (CheckReply | Error)[] =>
  decodeReplies(
    nestedCalls(call).map(({ key, charges }) => ({
      key,
      provisionalMs: 0,
      kind: "relaxed" as const,
      charges: charges.map(({ cost, ...charge }) => ({
        text: chargeText(charge),
        cost,
        limits: charge.limits,
      })),
    })),
    replies,
  );
