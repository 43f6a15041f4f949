/**
 * An object that decides joined checks. Two references decide the same checks one after the other in the same order: a
 * second limiter that receives nested calls, and a naive sliding log.
 */
import { isDeepStrictEqual } from "node:util";
import { IsolateBudget, isolateBudgetBytes } from "../../../src/limiter/object/key-cache.ts";
import { KeyObject } from "../../../src/limiter/object/key-object.ts";
import type { CheckCall, CheckReply, RefundCall } from "../../../src/limiter/protocol.ts";
import { isLook, nestedCalls } from "../../fakes/flat-calls.ts";
import { decodedReplies } from "../../fakes/key-checks.ts";
import { MemoryStorage } from "../../../src/sdk/testing/memory-storage.ts";
import type { World } from "../world.ts";
import type { JoinedChecksOfRun } from "./invariants.ts";
import type { Ledger } from "./ledger.ts";
import { NaiveLog } from "./naive-log.ts";

type Answer = CheckReply | Error;

/** A limiter that can crash, with its storage. */
class StoredLimiter {
  readonly #world: World;
  readonly #storage = new MemoryStorage();
  limiter: KeyObject;
  #lives = 0;

  constructor(world: World) {
    this.#world = world;
    this.limiter = this.#begin();
  }

  /** Restarts the limiter without warning: only stored state survives. */
  crash(): void {
    this.#lives++;
    this.limiter = this.#begin();
  }

  #begin(): KeyObject {
    const life = this.#lives;
    const { now, after } = this.#world.clock();
    return new KeyObject({
      storage: this.#storage,
      // A memory budget for this object alone, because limiters of earlier runs may still count in a shared budget.
      isolate: new IsolateBudget(isolateBudgetBytes),
      now,
      after: (afterMs, act) => after(afterMs, () => life === this.#lives && act()),
    });
  }
}

export class DecidedObject {
  readonly #world: World;
  readonly #checks: JoinedChecksOfRun;
  readonly #ledger: Ledger;
  readonly #deciding: StoredLimiter;
  readonly #reference: StoredLimiter;
  readonly #naive = new NaiveLog();
  crashes = 0;

  constructor(world: World, checks: JoinedChecksOfRun, ledger: Ledger) {
    this.#world = world;
    this.#checks = checks;
    this.#ledger = ledger;
    this.#deciding = new StoredLimiter(world);
    this.#reference = new StoredLimiter(world);
  }

  crash(): void {
    this.crashes++;
    this.#deciding.crash();
    this.#reference.crash();
    this.#naive.isComplete = false;
  }

  /** Makes a call with copies of the arguments that were sent. */
  call(name: string, args: readonly unknown[]): unknown {
    const { limiter } = this.#deciding;
    if (name === "decide") return this.#decide(...(args as Parameters<KeyObject["decide"]>));
    const methods = limiter as unknown as Record<string, (...each: readonly unknown[]) => unknown>;
    const reply = structuredClone(methods[name]?.apply(limiter, structuredClone(args) as unknown[]));
    const twin = this.#reference.limiter as unknown as typeof methods;
    const expected = structuredClone(twin[name]?.apply(twin, structuredClone(args) as unknown[]));
    this.#compare(name, reply, expected);
    if (name === "refund") {
      this.#naive.refund(args[0] as RefundCall);
      this.#ledger.refunded(args[0] as RefundCall);
    }
    return reply;
  }

  /** Decides a share of the checks of a call, the first ones, and then crashes. */
  crashInMidCall(args: readonly unknown[], share: number): void {
    const [texts, checks] = args as Parameters<KeyObject["decide"]>;
    const calls = nestedCalls({ texts, checks });
    for (const call of calls.slice(0, Math.floor(calls.length * share))) {
      this.#checkReply(call, answerOf(this.#deciding.limiter, call));
    }
    this.crash();
  }

  #decide(texts: readonly string[], checks: Parameters<KeyObject["decide"]>[1]): unknown {
    const replies = structuredClone(this.#deciding.limiter.decide(texts, checks));
    const answers = decodedReplies({ texts, checks }, replies);
    for (const [index, call] of nestedCalls({ texts, checks }).entries()) {
      this.#checkReply(call, answers[index] ?? new Error("no reply"));
    }
    return replies;
  }

  #checkReply(call: CheckCall, answer: Answer): void {
    const expected = answerOf(this.#reference.limiter, call);
    this.#compare("check", answer, expected);
    const isDecided = !(answer instanceof Error) && (answer.stale ?? []).length === 0;
    if (!isDecided || isLook(call)) return;
    const naive = this.#naive.decide(call, answer, this.#world.nowMs);
    const allowed = answer.decisions.map((each) => each.allowed);
    if (naive !== null) {
      this.#checks.check(
        "decisions: those of a naive log that decides the checks one by one",
        isDeepStrictEqual(allowed, naive),
        () => `${JSON.stringify(call)}: ${allowed.join()} instead of ${naive.join()}`,
      );
    }
    this.#ledger.decided(call, answer, this.#world.nowMs);
  }

  #compare(name: string, reply: unknown, expected: unknown): void {
    this.#checks.check(
      "decisions: those of an object that decides the same checks one by one",
      isDeepStrictEqual(plain(reply), plain(expected)),
      () => `${name}: ${JSON.stringify(plain(reply))} instead of ${JSON.stringify(plain(expected))}`,
    );
  }
}

function answerOf(limiter: KeyObject, call: CheckCall): Answer {
  try {
    return isLook(call) ? limiter.look(structuredClone(call)) : limiter.check(structuredClone(call));
  } catch (error) {
    return error as Error;
  }
}

/** The value without its fields that are undefined. */
const plain = (value: unknown): unknown =>
  value instanceof Error ? `${value.name}: ${value.message}` : JSON.parse(JSON.stringify(value ?? null));
