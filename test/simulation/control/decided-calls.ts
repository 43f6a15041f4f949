/** The decisions in the calls that an object has completed. */
import type { Charge, CheckCall, CheckReply, ReserveReply } from "../../../src/limiter/protocol.ts";
import type { FlatList } from "../../../src/limiter/flat-calls.ts";
import { isLook, nestedCalls } from "../../fakes/flat-calls.ts";
import { nestedReplies } from "../../fakes/key-checks.ts";
import type { Completed } from "./key-objects.ts";

export interface DecidedCall {
  readonly key: string;
  readonly charges: readonly Charge[];
  readonly reply: CheckReply;
  /** The id of the reservation that the call requested. */
  readonly reservation: string | null;
}

const hasCost = ({ charges }: CheckCall): boolean => charges.some(({ cost }) => cost > 0);

/** The calls that can spend, with their replies, even if the object refused to decide them. */
export function decidedCalls({ name, args, reply }: Completed): DecidedCall[] {
  if (name === "decide") {
    const [texts, checks] = args as [readonly string[], FlatList];
    const replies = nestedReplies({ texts, checks }, reply as FlatList);
    return nestedCalls({ texts, checks }).flatMap((each, index) => {
      const own = replies[index];
      return own === undefined || isLook(each) || !hasCost(each) ? [] : decided(each, own, null);
    });
  }
  const [call] = args as [CheckCall & { readonly id?: string }];
  if (!["lease", "reserve"].includes(name) || !hasCost(call)) return [];
  // A reservation on a key with the maximum of open ones is not decided.
  if (((reply as ReserveReply).fullForMs ?? 0) > 0) return [];
  return [decided(call, reply as CheckReply, name === "reserve" ? (call.id ?? null) : null)];
}

const decided = ({ key, charges }: CheckCall, reply: CheckReply, reservation: string | null): DecidedCall => ({
  key,
  charges,
  reply,
  reservation,
});

export const isRefused = ({ stale = [] }: CheckReply): boolean => stale.length > 0;

/** The charges that a call has spent according to its reply, with their positions in the call. */
export function spentCharges({ charges, reply }: DecidedCall): { charge: Charge; index: number }[] {
  const isAdmitted = charges.every(
    ({ isDryRun = false }, index) => isDryRun || reply.decisions[index]?.allowed === true,
  );
  if (isRefused(reply) || !isAdmitted) return [];
  return charges.flatMap((charge, index) => {
    const isFree = reply.keyRules?.[index]?.kind === "allow";
    return !isFree && reply.decisions[index]?.allowed === true ? [{ charge, index }] : [];
  });
}
