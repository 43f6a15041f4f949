/**
 * When what an isolate has spent by itself is sent: all keys of an object that are due in one call, each as often as its
 * policies say, a key that the object has told nothing of at once.
 */
import { type Clock, passed } from "./clock.ts";
import type { Later, ObjectCalls } from "./object-calls.ts";
import { idOf, type Place } from "./place.ts";
import type { SyncCall } from "./protocol.ts";
import { Recent } from "./recent.ts";
import type { Replica } from "./replica.ts";

/** First-seen keys come in floods: those that come within so long of a call go with the next. */
const gatheredMs = 100;
const mostKeysOfCall = 100;
/** Work goes on after an answer for 30 s at the most. */
const longestWorkMs = 25_000;
/** So long a sync is waited for at most, whatever a decision may take. */
const longestSyncMs = 5_000;
/** A turn that is so late will not come any more: what it was to be called by is gone. */
const lostAfterMs = 2_000;
/** Bound the memory of an isolate. What has to go while an object is silent is lost. */
const mostLines = 2_048;
const mostOpen = 16_384;

/** Keys of an object that are sent together. */
interface Line {
  readonly place: Place;
  readonly everyMs: number;
  /** Asked for since they were last sent, or not known to be counted. */
  readonly waiting: Set<Replica>;
  /** When the next turn to send is due; null when none is. */
  dueAtMs: number | null;
  sentAtMs: number;
}

export class Syncs {
  readonly #calls: ObjectCalls;
  readonly #clock: Clock;
  readonly #isolate = crypto.randomUUID();
  readonly #lines = new Recent<Line>(mostLines);
  /** By their names, those of which not all is known to be counted, those asked for longest ago first. */
  readonly #open = new Map<string, Replica>();
  /** Of all keys, so that no replica that takes another's place sends a number of its again. */
  #batches = 0;

  constructor(calls: ObjectCalls, clock: Clock) {
    this.#calls = calls;
    this.#clock = clock;
  }

  /** Sees to it that a key is sent: the turn is this request's to wait for, unless one is due. */
  add(replica: Replica, later: Later, untilMs = this.#clock.now() + longestWorkMs): void {
    const line = this.#lineOf(replica);
    line.waiting.add(replica);
    this.#open.delete(replica.name);
    this.#open.set(replica.name, replica);
    if (this.#open.size > mostOpen) this.#drop();
    const nowMs = this.#clock.now();
    const { dueAtMs, everyMs } = line;
    // A clock that has stepped back tells of turns that are far off.
    const isDue = dueAtMs !== null && nowMs >= dueAtMs - everyMs && nowMs < dueAtMs + lostAfterMs;
    if (isDue) return;
    const sentAtMs = Math.max(line.sentAtMs, replica.sentAtMs);
    const waitMs = Math.min(everyMs, Math.max(0, sentAtMs + everyMs - nowMs));
    // What fails is tried again as long as there is time; after that with the next request.
    if (nowMs + waitMs > untilMs) return;
    line.dueAtMs = nowMs + waitMs;
    later(this.#turn(line, waitMs, later, untilMs));
  }

  /**
   * The replica of that name that is still to be sent: one that took its place would be counted before it, and batches
   * that come after later ones are taken for counted.
   */
  open(name: string): Replica | undefined {
    return this.#open.get(name);
  }

  #drop(): void {
    const [oldest] = this.#open.values();
    if (oldest === undefined) return;
    this.#open.delete(oldest.name);
    this.#lineOf(oldest).waiting.delete(oldest);
  }

  async #turn(line: Line, waitMs: number, later: Later, untilMs: number): Promise<void> {
    if (waitMs > 0) await passed(this.#clock, waitMs);
    line.dueAtMs = null;
    line.sentAtMs = this.#clock.now();
    const due = [...line.waiting];
    line.waiting.clear();
    const left = await this.#send(line.place, due);
    for (const replica of due) {
      const isWaiting = this.#lineOf(replica).waiting.has(replica);
      if (!isWaiting && !left.has(replica)) this.#open.delete(replica.name);
    }
    for (const replica of left) this.add(replica, later, untilMs);
  }

  /** @returns those of which not all is known to be counted */
  async #send(place: Place, replicas: readonly Replica[]): Promise<ReadonlySet<Replica>> {
    const left = new Set<Replica>();
    for (let from = 0; from < replicas.length; from += mostKeysOfCall) {
      // What fails the first need not be asked of the rest at once.
      // oxlint-disable-next-line no-await-in-loop
      const called = await this.#call(place, replicas.slice(from, from + mostKeysOfCall));
      for (const replica of called) left.add(replica);
    }
    return left;
  }

  async #call(place: Place, replicas: readonly Replica[]): Promise<readonly Replica[]> {
    const sentAtMs = this.#clock.now();
    const isOnItsWay = ({ isSending, sentAtMs: sinceMs }: Replica): boolean =>
      isSending && sentAtMs >= sinceMs && sentAtMs - sinceMs < longestSyncMs + lostAfterMs;
    const others = replicas.filter(isOnItsWay);
    const sent = replicas.flatMap((replica) => {
      const nextBatch = (): number => (this.#batches += 1);
      const sending = isOnItsWay(replica) ? null : replica.sending(nextBatch, sentAtMs);
      return sending === null ? [] : { replica, sending };
    });
    if (sent.length === 0) return others;
    const policies = sent.flatMap(({ replica }) => replica.policies);
    const call: SyncCall = {
      isolate: this.#isolate,
      syncs: sent.map(({ sending }) => sending.call),
    };
    const answers = await this.#calls.make({
      name: "sync",
      place,
      policies: [...new Set(policies.map(({ name }) => name))],
      timeoutMs: Math.min(longestSyncMs, Math.max(...policies.map(({ timeoutMs }) => timeoutMs))),
      ask: (stub) => stub.sync(call),
    });
    const answeredAtMs = this.#clock.now();
    const left = sent.filter(
      ({ replica, sending }, index) =>
        !replica.answered(sending, answers?.[index] ?? null, answeredAtMs),
    );
    return [...others, ...left.map(({ replica }) => replica)];
  }

  #lineOf({ place, sentAtMs, syncEveryMs }: Replica): Line {
    const everyMs = sentAtMs === Number.NEGATIVE_INFINITY ? gatheredMs : syncEveryMs;
    const name = `${idOf(place)} ${sentAtMs === Number.NEGATIVE_INFINITY ? "first" : everyMs}`;
    const line = this.#lines.get(name) ?? {
      place,
      everyMs,
      waiting: new Set<Replica>(),
      dueAtMs: null,
      sentAtMs: Number.NEGATIVE_INFINITY,
    };
    this.#lines.set(name, line);
    return line;
  }
}
