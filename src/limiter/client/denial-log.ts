/**
 * The log of denials, for operators who ask for it. A flood of denials must not become a flood of lines: an isolate
 * writes so many a second, and the number of those that it omits.
 */
import { report } from "../../observability/events.ts";
import { type Clock, sleep, platformClock } from "../clock.ts";
import type { WaitUntil } from "./object-caller.ts";
import type { DenialReason } from "./outcome.ts";

const mostLines = 10;
const spanMs = 1_000;
/** A request's context ends 30 s after its response. */
const longestFlushMs = 10_000;

/** A denial by one policy. */
export interface LoggedDenial {
  readonly policy: string;
  readonly reason: DenialReason;
  readonly violated: readonly string[];
  /** The parts of the key that the request lacks. */
  readonly missing?: readonly string[];
  /** A pseudonym; left out where no key is charged. */
  readonly key?: string;
  /** Null where no wait helps. */
  readonly retryAfterMs: number | null;
}

export class DenialLog {
  readonly #clock: Clock;
  /** When the last lines were written, the oldest first. */
  #writtenAtMs: number[] = [];
  #omitted = 0;
  /** Until when the count of omitted lines is being seen to. */
  #flushedByMs: number | null = null;

  constructor(clock: Clock = platformClock) {
    this.#clock = clock;
  }

  note(denial: LoggedDenial, waitUntil: WaitUntil): void {
    const nowMs = this.#clock.now();
    if (this.#waitMs(nowMs) === 0) {
      this.#write(nowMs, (omitted) => ({
        event: "request-denied",
        ...denial,
        ...(omitted > 0 && { omitted }),
      }));
      return;
    }
    this.#omitted++;
    if (this.#isFlushing(nowMs)) return;
    this.#flushedByMs = nowMs + longestFlushMs;
    waitUntil(this.#flush(this.#flushedByMs));
  }

  /**
   * Writes the count where no denial follows that would carry it. It waits in the context of the request whose line was
   * the first to be omitted, which lasts no longer for it than the flood and a second.
   */
  async #flush(untilMs: number): Promise<void> {
    let nowMs = this.#clock.now();
    while (this.#omitted > 0 && nowMs < untilMs) {
      const waitMs = this.#waitMs(nowMs);
      if (waitMs === 0) {
        this.#write(nowMs, (omitted) => ({ event: "denials-omitted", omitted }));
        break;
      }
      // oxlint-disable-next-line no-await-in-loop
      await sleep(this.#clock, waitMs);
      nowMs = this.#clock.now();
    }
    if (this.#flushedByMs === untilMs) this.#flushedByMs = null;
  }

  /** False as well where the request that was to do it was cut off, or the clock has stepped back. */
  #isFlushing(nowMs: number): boolean {
    const byMs = this.#flushedByMs;
    return byMs !== null && nowMs < byMs && byMs - nowMs <= longestFlushMs;
  }

  /** How long until a line may be written. */
  #waitMs(nowMs: number): number {
    // A clock that has stepped back says nothing about how many lines were written within a second.
    if ((this.#writtenAtMs.at(-1) ?? nowMs) > nowMs) this.#writtenAtMs = [];
    const [oldestMs = Number.NEGATIVE_INFINITY] = this.#writtenAtMs.slice(-mostLines);
    return this.#writtenAtMs.length < mostLines ? 0 : Math.max(0, oldestMs + spanMs - nowMs);
  }

  #write(nowMs: number, eventOf: (omitted: number) => Parameters<typeof report>[0]): void {
    this.#writtenAtMs = [...this.#writtenAtMs.slice(1 - mostLines), nowMs];
    const omitted = this.#omitted;
    this.#omitted = 0;
    report(eventOf(omitted));
  }
}
