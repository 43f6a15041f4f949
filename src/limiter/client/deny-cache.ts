/**
 * What an isolate remembers of denials that nothing but time will change: the object need not be asked again by each
 * request of a flood. Nothing is allowed from memory. What other isolates spend meanwhile may leave less than is told, and
 * longer waits, as it may after every answer.
 */
import type { Decision } from "../../strategies/index.ts";
import { type Asked, askedOf, isOf, outcomesOf } from "./key-group.ts";
import { aged, type Outcome, type Spend } from "./outcome.ts";
import type { CheckReply } from "../protocol.ts";
import { BoundedMap } from "../bounded-map.ts";

/** As long as a failure of an object is remembered, and a `Retry-After` tells at least. */
const longestMs = 1_000;

/** Bounds the memory of an isolate: keys, and of each the costs and the sets of policies that it was denied with. */
const mostKeys = 4_096;
const mostOfKey = 8;
const mostBytes = 4_000_000;
/** About what a denial takes, and what each limit adds to it. */
const bytesOfDenial = 500;
const bytesOfLimit = 350;

interface Denial {
  /** All that was asked together, and the cost of each. */
  readonly asked: readonly Asked[];
  readonly costs: readonly number[];
  readonly reply: CheckReply;
  readonly askedAtMs: number;
  /** From then on its waits are counted down: what is told suffices, however long the answer took. */
  readonly answeredAtMs: number;
  readonly lastsMs: number;
}

export class DenyCache {
  readonly #ofKeys = new BoundedMap<readonly Denial[]>(mostKeys, { mostBytes, bytesOf });

  /** What the object would answer at `nowMs` to spends on one key, where that is known. */
  recall(group: readonly Spend[], nowMs: number): readonly Outcome[] | null {
    const [first] = group;
    const denials = first === undefined ? undefined : this.#ofKeys.get(first.partitionKey);
    if (denials === undefined) return null;
    const denial = denials.find((each) => isAlike(each, group));
    if (denial === undefined) return null;
    const sinceAskedMs = nowMs - denial.askedAtMs;
    // A clock that has stepped back tells nothing of how long ago it was.
    if (sinceAskedMs < 0 || sinceAskedMs >= denial.lastsMs) return null;
    const sinceMs = Math.max(0, nowMs - denial.answeredAtMs);
    return outcomesOf(group, denial.reply).map((outcome) =>
      "decision" in outcome ? { ...outcome, decision: aged(outcome.decision, sinceMs) } : outcome,
    );
  }

  /** @param askedAtMs when the object was asked, and `answeredAtMs` when its answer was there */
  remember(
    group: readonly Spend[],
    reply: CheckReply,
    askedAtMs: number,
    answeredAtMs: number,
  ): void {
    const [first] = group;
    if (first === undefined || reply.isFirm !== true || !group.every(isRemembered)) return;
    const { partitionKey } = first;
    const lastsMs = Math.min(reply.firmForMs ?? longestMs, lastsFor(reply.decisions));
    const asked = group.map(askedOf);
    const costs = group.map(({ cost }) => cost);
    const denial = { asked, costs, reply, askedAtMs, answeredAtMs, lastsMs };
    const others = (this.#ofKeys.get(partitionKey) ?? []).filter((each) => !isAlike(each, group));
    this.#ofKeys.set(partitionKey, [denial, ...others].slice(0, mostOfKey));
  }

  /** For when something is spent, or all is forgotten: others' memories last for a second at the most. */
  forget(partitionKey: string): void {
    this.#ofKeys.delete(partitionKey);
  }
}

const bytesOf = (denials: readonly Denial[]): number =>
  denials.reduce(
    (sum, { reply }) =>
      reply.decisions.reduce(
        (bytes, { limits }) => bytes + limits.length * bytesOfLimit,
        sum + bytesOfDenial,
      ),
    0,
  );

/** What is to be settled may be given back; a dry run has its say in the log each time. */
const isRemembered = ({ policy, ttlMs }: Spend): boolean =>
  policy.isDenyCached && !policy.isDryRun && ttlMs === undefined;

/** By the same policies, at the same costs. */
const isAlike = (
  { asked, costs }: Pick<Denial, "asked" | "costs">,
  group: readonly Spend[],
): boolean =>
  isOf(asked, group) &&
  group.every(({ cost, ttlMs }, index) => cost === costs[index] && ttlMs === undefined);

/** Until anything but waits is another, `remaining` included. */
function lastsFor(decisions: readonly Decision[]): number {
  const ends = decisions.flatMap(({ allowed, retryAfterMs, bannedForMs, limits }) => [
    ...(allowed || retryAfterMs === null ? [] : [retryAfterMs]),
    ...(bannedForMs > 0 ? [bannedForMs] : []),
    ...limits.flatMap((limit) => (limit.replenishAfterMs > 0 ? limit.replenishAfterMs : [])),
  ]);
  return Math.min(longestMs, ...ends);
}
