/**
 * The log of denials, which the configuration enables. A flood of denials must not become a flood of lines: an isolate
 * writes up to ten lines per second, and then the number of omitted denials.
 */
import { report } from "../../observability/events.ts";
import { type Clock, sleep, platformClock } from "../clock.ts";
import type { WaitUntil } from "./object-caller.ts";
import type { DenialReason } from "./outcome.ts";

const maximumLines = 10;
const spanMs = 1_000;
/** The platform ends background work 30 s after the response. */
const longestFlushMs = 10_000;

export interface LoggedDenial {
  readonly policy: string;
  readonly reason: DenialReason;
  readonly violated: readonly string[];
  readonly missing?: readonly string[];
  /** A pseudonym of the key; absent when no key is charged. */
  readonly key?: string;
  /** Null when no wait helps. */
  readonly retryAfterMs: number | null;
}

export class DenialLog {
  readonly #clock: Clock;
  /** The times of the last lines, the oldest first. */
  #writtenAtMs: number[] = [];
  #omitted = 0;
  /** The time by which a running request writes the count of omitted denials; null when no request does. */
  #flushedByMs: number | null = null;

  constructor(clock: Clock = platformClock) {
    this.#clock = clock;
  }

  /** @param denialOf called only if the denial gets its own line */
  note(denialOf: () => LoggedDenial, waitUntil: WaitUntil): void {
    const nowMs = this.#clock.now();
    if (this.#waitMs(nowMs) === 0) {
      this.#write(nowMs, (omitted) => ({
        event: "request-denied",
        ...denialOf(),
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
   * Writes the count of omitted denials when no later line reports it. Runs in the background of the request whose line
   * was omitted first, until one second after the flood and for up to 10 s.
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

  /** Whether a request will write the count. False when it was cut off or the clock has stepped back. */
  #isFlushing(nowMs: number): boolean {
    const byMs = this.#flushedByMs;
    return byMs !== null && nowMs < byMs && byMs - nowMs <= longestFlushMs;
  }

  /** The time until a line may be written, in milliseconds. */
  #waitMs(nowMs: number): number {
    // After a step back of the clock, the age of the lines is unknown.
    if ((this.#writtenAtMs.at(-1) ?? nowMs) > nowMs) this.#writtenAtMs = [];
    const [oldestMs = Number.NEGATIVE_INFINITY] = this.#writtenAtMs;
    return this.#writtenAtMs.length < maximumLines ? 0 : Math.max(0, oldestMs + spanMs - nowMs);
  }

  #write(nowMs: number, eventOf: (omitted: number) => Parameters<typeof report>[0]): void {
    this.#writtenAtMs = [...this.#writtenAtMs.slice(1 - maximumLines), nowMs];
    const omitted = this.#omitted;
    this.#omitted = 0;
    report(eventOf(omitted));
  }
}
