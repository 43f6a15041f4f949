/** The network between isolates and objects. It delays and loses calls and replies. Objects crash during calls. */
import type { LimiterClient } from "../../../src/limiter/isolate/client.ts";
import type { FlatList } from "../../../src/limiter/flat-calls.ts";
import type { CheckCall, CheckReply, RefundCall } from "../../../src/limiter/protocol.ts";
import { isLook, nestedCalls } from "../../fakes/flat-calls.ts";
import { decodedReplies } from "../../fakes/key-checks.ts";
import type { Random } from "../../random.ts";
import type { World } from "../world.ts";
import { DecidedObject } from "./decided-object.ts";
import type { JoinedChecksOfRun } from "./invariants.ts";
import type { Ledger } from "./ledger.ts";
import { currentContext, type RequestContext } from "./request-context.ts";

export type Objects = ConstructorParameters<typeof LimiterClient>[0];

/** Each field is a share of calls, unless its comment states otherwise. */
export interface Faults {
  /** The longest delay of one direction, in milliseconds. */
  readonly maximumDelayMs: number;
  readonly lost: number;
  readonly unanswered: number;
  readonly hung: number;
  /** The share of calls whose reply arrives after more than a second. */
  readonly slow: number;
  /** The share of calls after some of whose checks the object crashes. */
  readonly crashing: number;
  /** The share of calls after all of whose checks, but before the reply, the object crashes. */
  readonly crashed: number;
}

export const calm = { lost: 0, unanswered: 0, hung: 0, slow: 0, crashing: 0, crashed: 0 } as const;

const slowMs = 1_500;

interface NetworkParts {
  readonly world: World;
  readonly random: Random;
  readonly faults: Faults;
  readonly checks: JoinedChecksOfRun;
  readonly ledger: Ledger;
  /** Called with the checks of each call that an isolate sends. */
  readonly onSent: (calls: readonly CheckCall[]) => void;
  /** Returns the request to which a check belongs. */
  readonly contextOf: (call: CheckCall) => RequestContext | undefined;
}

const methods = ["decide", "batch", "look", "refund"];

export class Network {
  readonly #parts: NetworkParts;
  readonly objects = new Map<string, DecidedObject>();

  constructor(parts: NetworkParts) {
    this.#parts = parts;
  }

  object(name: string): DecidedObject {
    const { world, checks, ledger } = this.#parts;
    const object = this.objects.get(name) ?? new DecidedObject(world, checks, ledger);
    this.objects.set(name, object);
    return object;
  }

  namespace(): Objects {
    const getByName = (name: string): object =>
      Object.fromEntries(
        methods.map((method) => [
          method,
          (...args: readonly unknown[]) => this.#carry(name, method, structuredClone(args)),
        ]),
      );
    return { getByName } as unknown as Objects;
  }

  #carry(name: string, method: string, args: readonly unknown[]): Promise<unknown> {
    const context = currentContext();
    const { world, random, faults, ledger, onSent } = this.#parts;
    // Each call draws the same number of random numbers, so that a fault does not affect the draws of later calls.
    const shares = ["lost", "unanswered", "hung", "slow", "crashing", "crashed"] as const;
    const fate = new Set(shares.filter((share) => random() < faults[share]));
    const [part, there, back] = [random(), random(), random()];
    const delayMs = (share: number): number => Math.floor(share * (faults.maximumDelayMs + 1));
    if (context.isGone) return new Promise(() => undefined);
    if (method === "refund") ledger.refundSent(args[0] as RefundCall);
    const calls = checksOf(method, args);
    onSent(calls);
    this.#noteSituations(calls, fate);
    return new Promise((resolve, reject) => {
      const answer = (settle: () => void): void => {
        if (fate.has("hung")) return;
        const afterMs = delayMs(back) + (fate.has("slow") ? slowMs : 0);
        // A reply wakes only the request that made the call.
        world.at(world.nowMs + afterMs, () => {
          if (!context.isGone) settle();
        });
      };
      const fail = (error: unknown): void => answer(() => reject(error));
      world.at(world.nowMs + delayMs(there), () => {
        if (fate.has("lost")) return fail(new Error("Network connection lost."));
        const object = this.object(name);
        try {
          const isCut = fate.has("crashing") && method === "decide";
          const reply = isCut ? object.crashInMidCall(args, part) : object.call(method, args);
          if (fate.has("crashed")) object.crash();
          if (isCut || fate.has("crashed")) throw new Error("The object was reset.");
          if (fate.has("unanswered")) return fail(new Error("Network connection lost."));
          return answer(() => {
            this.#noteArrival(method, args, calls, reply);
            resolve(reply);
          });
        } catch (error) {
          return fail(error);
        }
      });
    });
  }

  #noteSituations(calls: readonly CheckCall[], fate: ReadonlySet<string>): void {
    const { ledger, contextOf } = this.#parts;
    if (new Set(calls.map(contextOf)).size < 2) return;
    const isSilent = ["lost", "unanswered", "hung"].some((each) => fate.has(each));
    ledger.note("a call of several requests that was lost or never answered", isSilent);
    const isCrash = fate.has("crashing") || fate.has("crashed");
    ledger.note("a call of several requests whose object crashed", isCrash);
    for (const { provisionalMs = 0, durability } of calls) {
      ledger.note("a provisional check of a joined call", provisionalMs > 0);
      ledger.note("a confirmed check of a joined call", durability === "confirmed");
    }
  }

  #noteArrival(method: string, args: readonly unknown[], calls: readonly CheckCall[], reply: unknown): void {
    const { ledger, contextOf } = this.#parts;
    const replies =
      method === "decide"
        ? decodedReplies({ texts: args[0] as readonly string[], checks: args[1] as FlatList }, reply as FlatList)
        : (reply as readonly CheckReply[]);
    const isJoined = new Set(calls.map(contextOf)).size > 1;
    for (const [index, call] of calls.entries()) {
      if (isLook(call)) continue;
      const each = replies[index];
      if (isJoined && each !== undefined) this.#noteReply(each);
      if (each === undefined || each instanceof Error) continue;
      if (contextOf(call)?.isGone === false) ledger.arrived(call, each);
    }
  }

  #noteReply(reply: CheckReply | Error): void {
    const { ledger } = this.#parts;
    const isError = reply instanceof Error;
    ledger.note("a check of a joined call that the object could not decide", isError);
    if (isError) return;
    const isStale = (reply.stale ?? []).length > 0;
    ledger.note("a check of a joined call that had older rules", isStale);
    const isBanned = reply.decisions.some(({ bannedForMs }) => bannedForMs > 0);
    ledger.note("a check of a joined call whose key was banned", isBanned);
  }
}

/** The checks of a call; empty for calls of other methods. */
function checksOf(method: string, args: readonly unknown[]): readonly CheckCall[] {
  if (method === "decide") {
    return nestedCalls({ texts: args[0] as readonly string[], checks: args[1] as FlatList });
  }
  return [];
}
