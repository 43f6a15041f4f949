/** Reads for a component while it is shown, repeatedly or once, and keeps the last value when a read fails. */
import { computed, signal } from "@preact/signals";
import { useEffect, useMemo, useState } from "preact/hooks";
import { now } from "../clock.ts";
import { answeredAtMs, ConnectionLost, errorOf, isConnected, refusal } from "./client.ts";

const longestPauseMs = 10_000;

const running = signal<readonly Polling<unknown>[]>([]);

const failing = computed(() =>
  running.value.find(({ value, problem }) => value.value !== null && problem.value !== null),
);

/**
 * The reason why the page still shows an old value. Null while all values are current, and while the connection is
 * lost.
 */
export const staleness = computed(() => failing.value?.problem.value ?? null);

/** The time of the values that the page shows although reading again failed; null while all values are current. */
export const staleSinceMs = computed(() =>
  isConnected.value ? (failing.value?.readAtMs ?? null) : (answeredAtMs.peek() ?? now()),
);

/**
 * Reads at once, then with pauses, except while the page is hidden and after the credentials are refused.
 * @param parameters when one changes, reading starts again without the previous value
 */
export function usePolled<Value>(
  readValue: (abort: AbortSignal) => Promise<Value>,
  pauseMs: number,
  parameters: readonly unknown[] = [],
): Polling<Value> {
  // oxlint-disable-next-line react/exhaustive-deps -- the caller lists what readValue depends on
  const polling = useMemo(() => new Polling(readValue, pauseMs), parameters);
  useEffect(() => {
    polling.start();
    return () => polling.stop();
  }, [polling]);
  return polling;
}

export class Polling<Value> {
  /** The last value that was read; null before the first read. */
  readonly value = signal<Value | null>(null);
  /** Why the last read was refused; null after a success, and while the connection is lost. */
  readonly problem = signal<Error | null>(null);
  /** When the value was read. */
  readAtMs = 0;
  readonly #readValue: (abort: AbortSignal) => Promise<Value>;
  readonly #pauseMs: number;
  #abort = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #failures = 0;
  #unfollow = (): void => {};

  constructor(readValue: (abort: AbortSignal) => Promise<Value>, pauseMs: number) {
    this.#readValue = readValue;
    this.#pauseMs = pauseMs;
  }

  start(): void {
    running.value = [...running.peek(), this];
    document.addEventListener("visibilitychange", this.readAgain);
    window.addEventListener("online", this.readAgain);
    // Reads now, and again when credentials that were refused are accepted.
    this.#unfollow = refusal.subscribe((problem) => {
      if (problem === null) this.readAgain();
    });
  }

  stop(): void {
    running.value = running.peek().filter((each) => each !== this);
    document.removeEventListener("visibilitychange", this.readAgain);
    window.removeEventListener("online", this.readAgain);
    this.#unfollow();
    clearTimeout(this.#timer);
    this.#abort.abort();
  }

  readonly readAgain = (): void => {
    clearTimeout(this.#timer);
    this.#abort.abort();
    this.#abort = new AbortController();
    // Calls with refused credentials count against the address, and too many lock out everybody behind it.
    if (!document.hidden && refusal.value === null) void this.#read(this.#abort.signal);
  };

  async #read(abort: AbortSignal): Promise<void> {
    try {
      const value = await this.#readValue(abort);
      if (abort.aborted) return;
      this.#failures = 0;
      this.readAtMs = now();
      this.value.value = value;
      this.problem.value = null;
    } catch (error) {
      if (abort.aborted) return;
      this.#failures += 1;
      this.problem.value = error instanceof ConnectionLost ? null : errorOf(error);
    }
    const pauseMs = Math.min(longestPauseMs, this.#pauseMs * 2 ** this.#failures);
    this.#timer = setTimeout(this.readAgain, Math.max(this.#pauseMs, pauseMs));
  }
}

interface Delays {
  /** The delay before the first read. */
  readonly firstMs?: number;
  /** The delay before each later read. It is longer than the time between two keystrokes. */
  readonly laterMs?: number;
}

/**
 * Returns the last value that was read. A failed read, or one that returns null, keeps the previous value: the page is
 * complete without this value.
 * @param read null while there is nothing to read
 * @param parameters a change of one of them starts another read
 */
export function useRead<Value>(
  read: ((abort: AbortSignal) => Promise<Value | null>) | null,
  parameters: readonly unknown[],
  { firstMs = 0, laterMs = 0 }: Delays = {},
): Value | null {
  const [value, setValue] = useState<Value | null>(null);
  const isFirst = value === null;
  useEffect(() => {
    if (read === null) return undefined;
    const abort = new AbortController();
    const readNow = async (): Promise<void> => {
      try {
        const next = await read(abort.signal);
        if (next !== null && !abort.signal.aborted) setValue(next);
      } catch {
        // The previous value stays.
      }
    };
    const timer = setTimeout(() => void readNow(), isFirst ? firstMs : laterMs);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
    // oxlint-disable-next-line react/exhaustive-deps -- the caller lists what the read depends on
  }, parameters);
  return value;
}
