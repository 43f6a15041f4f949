/**
 * When what an isolate has spent by itself is sent: keys of an object that are due go in one call, each at least as often as
 * its policies say. A key that was never sent goes at once, or shortly after the call before.
 */
import { report } from "../../observability/events.ts";
import { Cooldown } from "./cooldown.ts";
import { type Clock, sleep } from "../clock.ts";
import type { WaitUntil, ObjectCaller } from "./object-caller.ts";
import { objectId, type ObjectLocation } from "./object-location.ts";
import { BoundedMap } from "../bounded-map.ts";
import type { Replica, Sending } from "./replica.ts";

/** Keys that are seen first come in floods: those that come within so long of a call go with the next. */
const gatheredMs = 100;
const mostKeysOfCall = 100;
/** An object that gave no answer is not asked again by calls either. */
const silentMs = 1_000;
/** Work goes on after an answer for 30 s at the most. */
const longestWorkMs = 25_000;
/** Who has less left is relieved by the next request: what fails is to be tried for so long at least. */
const leastWorkMs = 15_000;
/** So long a sync is waited for at most, whatever a decision may take. */
const longestSyncMs = 5_000;
/** A turn, or an answer, that is so late will not come any more: whoever waited for it is gone. */
const lostAfterMs = 2_000;
/** Bound the memory of an isolate. What has to go while an object is silent is lost. */
const mostLines = 2_048;
const mostOpen = 16_384;
const droppedRestMs = 1_000;

/** Keys of an object that are to be sent. */
interface ObjectQueue {
  readonly location: ObjectLocation;
  /** Asked for since they were last sent, or not known to be counted. Who has an answer goes to the end. */
  readonly waiting: Set<Replica>;
  /** When the next turn to send is due, and the work of whoever waits for it must be over; null when none is. */
  turn: { readonly atMs: number; readonly untilMs: number } | null;
  calledAtMs: number;
  /** After a call that failed: until then none is made. */
  silentUntilMs: number;
}

export class SyncQueue {
  readonly #calls: ObjectCaller;
  readonly #clock: Clock;
  readonly #dropped: Cooldown;
  readonly #isolate = crypto.randomUUID();
  readonly #lines = new BoundedMap<ObjectQueue>(mostLines);
  /** All that are waiting, by their names; those asked for longest ago first. */
  readonly #open = new Map<string, { readonly replica: Replica; readonly line: ObjectQueue }>();
  /** Of all keys, so that no replica that takes another's place sends a number of its again. */
  #batches = 0;

  constructor(calls: ObjectCaller, clock: Clock) {
    this.#calls = calls;
    this.#clock = clock;
    this.#dropped = new Cooldown(droppedRestMs, clock);
  }

  /** Sees to it that a key is sent: the turn is this request's to wait for, unless one is due. */
  add(replica: Replica, waitUntil: WaitUntil): void {
    const line = this.#lineOf(replica.location);
    replica.isAsked = true;
    line.waiting.add(replica);
    this.#open.delete(replica.name);
    this.#open.set(replica.name, { replica, line });
    const [oldest] = this.#open.values();
    if (this.#open.size > mostOpen && oldest !== undefined) {
      if (oldest.replica.hasUnsent) this.#reportDropped(oldest.replica);
      this.#drop(oldest.line, oldest.replica);
    }
    const nowMs = this.#clock.now();
    this.#seeTo(line, wantedAtMs(line, replica, nowMs), waitUntil, nowMs + longestWorkMs);
  }

  /**
   * The replica of that name that is still to be sent: of one that took its place later batches would be counted first,
   * and its own be taken for counted.
   */
  open(name: string): Replica | undefined {
    return this.#open.get(name)?.replica;
  }

  /** Once a second: each request for another key would. */
  #reportDropped({ policies }: Replica): void {
    if (this.#dropped.isOn) return;
    this.#dropped.begin();
    report({ event: "spends-dropped", policies: policies.map(({ name }) => name) });
  }

  #drop(line: ObjectQueue, replica: Replica): void {
    line.waiting.delete(replica);
    if (this.#isOpen(replica)) this.#open.delete(replica.name);
  }

  #isOpen(replica: Replica): boolean {
    return this.#open.get(replica.name)?.replica === replica;
  }

  /** @param untilMs when work must be over: what is left then is for the next request */
  #seeTo(line: ObjectQueue, atMs: number, waitUntil: WaitUntil, untilMs: number): void {
    const { turn } = line;
    const isSeenTo =
      turn !== null &&
      turn.atMs <= atMs &&
      this.#clock.now() < turn.atMs + lostAfterMs &&
      turn.untilMs - atMs >= Math.min(leastWorkMs, untilMs - atMs);
    if (isSeenTo || atMs > untilMs) return;
    line.turn = { atMs, untilMs };
    waitUntil(this.#turn(line, atMs, waitUntil, untilMs));
  }

  async #turn(
    line: ObjectQueue,
    atMs: number,
    waitUntil: WaitUntil,
    untilMs: number,
  ): Promise<void> {
    const waitMs = atMs - this.#clock.now();
    if (waitMs > 0) await sleep(this.#clock, waitMs);
    if (line.turn?.atMs === atMs && line.turn.untilMs === untilMs) line.turn = null;
    const turnAtMs = this.#clock.now();
    const due = [...line.waiting].filter((replica) => isDueAt(replica, turnAtMs));
    await this.#send(line, due.slice(0, mostKeysOfCall));
    const nowMs = this.#clock.now();
    const nextAtMs = [...line.waiting].reduce((leastMs, replica) => {
      // Whoever was to have its answer may have been cut off.
      const lostAtMs = isOnItsWay(replica, nowMs) ? replica.lostAtMs : null;
      return Math.min(leastMs, lostAtMs ?? wantedAtMs(line, replica, nowMs));
    }, Number.POSITIVE_INFINITY);
    this.#seeTo(line, nextAtMs, waitUntil, untilMs);
  }

  async #send(line: ObjectQueue, replicas: readonly Replica[]): Promise<void> {
    const sentAtMs = this.#clock.now();
    const policies = replicas.flatMap((replica) => replica.policies);
    const timeouts = policies.map(({ timeoutMs }) => timeoutMs);
    const timeoutMs = Math.min(longestSyncMs, Math.max(...timeouts));
    const lostAtMs = sentAtMs + timeoutMs + lostAfterMs;
    const nextBatch = (): number => (this.#batches += 1);
    const sent = replicas.flatMap((replica): Sending[] => {
      const sending = replica.sending(nextBatch, sentAtMs, lostAtMs);
      if (sending === null) this.#drop(line, replica);
      return sending === null ? [] : [sending];
    });
    const [first, ...others] = sent.map(({ call }) => call);
    if (first === undefined) return;
    line.calledAtMs = sentAtMs;
    const answer = await this.#calls.call({
      name: "sync",
      location: line.location,
      policies: [...new Set(policies.map(({ name }) => name))],
      timeoutMs,
      ask: (stub) => stub.sync({ ...first, isolate: this.#isolate, others }),
    });
    const answers = answer === null ? [] : [answer, ...(answer.others ?? [])];
    const answeredAtMs = this.#clock.now();
    if (answer === null) line.silentUntilMs = answeredAtMs + silentMs;
    for (const [index, sending] of sent.entries()) {
      const { replica } = sending;
      const synced = answers[index] ?? null;
      replica.answered(sending, synced, answeredAtMs);
      if (synced !== null) this.#requeue(line, replica);
      // What there was no room for in the answer is the first to be sent then, and nothing else comes before it.
      else if (answer !== null) replica.dueAtMs = answeredAtMs;
    }
    // The first may be what an object cannot take: another is to be the first of the next call.
    for (const { replica } of answer === null ? [...sent.slice(1), ...sent.slice(0, 1)] : []) {
      this.#requeue(line, replica);
    }
  }

  /** At the end, as far as there is anything left to send. */
  #requeue(line: ObjectQueue, replica: Replica): void {
    line.waiting.delete(replica);
    if (this.#isOpen(replica) && (replica.isAsked || replica.hasUnsent)) line.waiting.add(replica);
    else this.#drop(line, replica);
  }

  #lineOf(location: ObjectLocation): ObjectQueue {
    const name = objectId(location);
    const line = this.#lines.get(name) ?? {
      location,
      waiting: new Set<Replica>(),
      turn: null,
      calledAtMs: Number.NEGATIVE_INFINITY,
      silentUntilMs: Number.NEGATIVE_INFINITY,
    };
    this.#lines.set(name, line);
    return line;
  }
}

/** When a key would best be sent; a clock that has stepped back puts nothing off for longer than it would be anyway. */
function wantedAtMs(line: ObjectQueue, replica: Replica, nowMs: number): number {
  const { calledAtMs, silentUntilMs } = line;
  const { dueAtMs, syncEveryMs } = replica;
  const [atMs, paceMs] =
    dueAtMs === null ? [calledAtMs + gatheredMs, gatheredMs] : [dueAtMs, syncEveryMs];
  const paced = Math.min(Math.max(nowMs, atMs), nowMs + paceMs);
  return Math.max(paced, Math.min(silentUntilMs, nowMs + silentMs));
}

/** What will be due before half its time is over goes along, so that keys of an object come to be due together. */
function isDueAt(replica: Replica, nowMs: number): boolean {
  const { dueAtMs, syncEveryMs } = replica;
  if (isOnItsWay(replica, nowMs)) return false;
  const leftMs = (dueAtMs ?? nowMs) - nowMs;
  return leftMs <= syncEveryMs / 2 || leftMs > syncEveryMs;
}

const isOnItsWay = ({ lostAtMs }: Replica, nowMs: number): boolean =>
  lostAtMs !== null && nowMs < lostAtMs && lostAtMs - nowMs <= longestSyncMs + lostAfterMs;
