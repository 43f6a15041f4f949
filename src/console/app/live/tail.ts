/** The live tail while the view "Live" is open: its connection, its log, and the shown part of the log. */
import { signal } from "@preact/signals";
import type { OutcomeName, TailEntryView, TailMessage, TailTicket } from "../../../admin/wire.ts";
import { ApiProblem, call } from "../api/client.ts";

/**
 * The state is "disconnected" after an open connection was lost, and "unreachable" if no connection was ever open. In
 * both states the tail tries again by itself. It is an `ApiProblem` when the API refuses a ticket.
 */
type TailState = "connecting" | "connected" | "disconnected" | "unreachable" | ApiProblem;

const pingMs = 30_000;
/** A connection that does not answer a ping within this time is lost, although the browser has not noticed it. */
const answerMs = 10_000;
const firstPauseMs = 1_000;
const longestPauseMs = 15_000;
/** An open tail makes every isolate report each second, so a page that stays hidden closes its tail after this time. */
const hiddenMs = 60_000;

export class TailConnection {
  readonly state = signal<TailState>("connecting");
  readonly #onEntries: (entries: readonly TailEntryView[]) => void;
  /** Ends the attempt, the connection, or the pause before the next attempt. */
  #abort = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #hiddenTimer: ReturnType<typeof setTimeout> | undefined;
  #failures = 0;

  constructor(onEntries: (entries: readonly TailEntryView[]) => void) {
    this.#onEntries = onEntries;
  }

  readonly connect = (): void => {
    document.addEventListener("visibilitychange", this.#followVisibility);
    this.#followVisibility();
    this.#connectNow();
  };

  stop(): void {
    document.removeEventListener("visibilitychange", this.#followVisibility);
    clearTimeout(this.#hiddenTimer);
    this.#end();
  }

  readonly #followVisibility = (): void => {
    clearTimeout(this.#hiddenTimer);
    if (document.hidden) this.#hiddenTimer = setTimeout(() => this.#end(), hiddenMs);
    else if (this.#abort.signal.aborted) this.#connectNow();
  };

  #end(): void {
    clearTimeout(this.#timer);
    this.#abort.abort();
  }

  #begin(): AbortSignal {
    this.#end();
    this.#abort = new AbortController();
    const { signal: abort } = this.#abort;
    addEventListener("online", this.#connectNow, { signal: abort });
    return abort;
  }

  readonly #connectNow = (): void => {
    const abort = this.#begin();
    const { value } = this.state;
    if (value !== "disconnected" && value !== "unreachable") this.state.value = "connecting";
    void this.#connect(abort);
  };

  async #connect(abort: AbortSignal): Promise<void> {
    try {
      const { ticket } = await call<TailTicket>("POST", "tail/ticket", { signal: abort });
      if (!abort.aborted) this.#open(ticket, abort);
    } catch (error) {
      if (abort.aborted) return;
      if (error instanceof ApiProblem && error.status < 500 && error.status !== 429) {
        this.state.value = error;
      } else {
        this.#connectLater("unreachable");
      }
    }
  }

  #open(ticket: string, abort: AbortSignal): void {
    const url = new URL(`api/tail?ticket=${encodeURIComponent(ticket)}`, document.baseURI);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(url);
    abort.addEventListener("abort", () => socket.close());
    const options = { signal: abort };
    const lost = (): void => this.#connectLater(this.state.value === "connected" ? "disconnected" : "unreachable");
    const opened = (): void => {
      this.#failures = 0;
      this.state.value = "connected";
      this.#pingLater(socket, lost);
    };
    const received = ({ data }: MessageEvent<string>): void => {
      this.#pingLater(socket, lost);
      if (data !== "pong") this.#onEntries(entriesIn(data));
    };
    socket.addEventListener("open", opened, options);
    socket.addEventListener("message", received, options);
    socket.addEventListener("close", lost, options);
  }

  /** Starts the time to the next ping again, because every message shows that the connection works. */
  #pingLater(socket: WebSocket, lost: () => void): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      socket.send("ping");
      this.#timer = setTimeout(lost, answerMs);
    }, pingMs);
  }

  #connectLater(state: "disconnected" | "unreachable"): void {
    this.#begin();
    this.state.value = state;
    const pauseMs = Math.min(longestPauseMs, firstPauseMs * 2 ** this.#failures);
    this.#failures += 1;
    this.#timer = setTimeout(this.#connectNow, pauseMs * (0.5 + Math.random() / 2));
  }
}

const entriesIn = (message: string): readonly TailEntryView[] =>
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- contract tests of the admin API check the messages
  (JSON.parse(message) as TailMessage).entries;

export interface TailFilter {
  readonly policy: string | null;
  readonly outcome: OutcomeName | null;
  /** The beginning of the id of a key; empty for all keys. */
  readonly key: string;
}

export interface TailRow extends TailEntryView {
  /** From 1, in the order of arrival. */
  readonly number: number;
}

export const mostDenials = 500;

export const isListed = (entry: TailEntryView, { policy, outcome, key }: TailFilter): boolean =>
  (policy === null || entry.policy === policy) &&
  (outcome === null || entry.outcome === outcome) &&
  entry.key.startsWith(key);

/** The newest denials that match the filter, in bounded memory. */
export class TailLog {
  /** The number of all denials that have arrived. */
  received = 0;
  /** The shown denials, the newest first. They do not change while paused. */
  rows: readonly TailRow[] = [];
  /** The denials that arrived while paused, the newest first. */
  waiting: readonly TailRow[] = [];
  /** The number of matching denials that arrived while paused, including those that were not kept. */
  waitingCount = 0;
  isPaused = false;
  #filter: TailFilter;

  constructor(filter: TailFilter) {
    this.#filter = filter;
  }

  /** Keeps only matching denials, so that a flood under one policy does not push out the rows of another. */
  add(entries: readonly TailEntryView[]): void {
    const numbered = entries.map((entry, index) => ({ ...entry, number: this.received + index + 1 }));
    this.received += entries.length;
    const matching = numbered.filter((entry) => isListed(entry, this.#filter));
    if (this.isPaused) {
      this.waitingCount += matching.length;
      this.waiting = newest(matching, this.waiting);
    } else {
      this.rows = newest(matching, this.rows);
    }
  }

  pause(): void {
    this.isPaused = true;
  }

  resume(): void {
    this.isPaused = false;
    this.rows = [...this.waiting, ...this.rows].slice(0, mostDenials);
    this.waiting = [];
    this.waitingCount = 0;
  }

  /** Removes the rows that do not match. Rows that an earlier filter removed do not come back. */
  filter(filter: TailFilter): void {
    this.#filter = filter;
    this.rows = this.rows.filter((row) => isListed(row, filter));
    this.waiting = this.waiting.filter((row) => isListed(row, filter));
    this.waitingCount = this.waiting.length;
  }
}

/** A message has denials of several moments, and messages of isolates overlap: rows have the order of arrival. */
const newest = (added: readonly TailRow[], rows: readonly TailRow[]): readonly TailRow[] =>
  added.length === 0 ? rows : [...added.toReversed(), ...rows].slice(0, mostDenials);

/** The connection of the view, and what is shown of its log. */
export class LiveTail {
  readonly connection = new TailConnection((entries) => this.#change((log) => log.add(entries)));
  /** Changes once per frame at most, and never while the page is hidden. */
  readonly shown = signal<Pick<TailLog, "rows" | "received" | "waitingCount" | "isPaused">>({
    rows: [],
    received: 0,
    waitingCount: 0,
    isPaused: false,
  });
  readonly #log: TailLog;
  #frame = 0;

  constructor(filter: TailFilter) {
    this.#log = new TailLog(filter);
  }

  stop(): void {
    this.connection.stop();
    cancelAnimationFrame(this.#frame);
  }

  readonly setFilter = (filter: TailFilter): void => this.#change((log) => log.filter(filter));
  readonly pause = (): void => this.#change((log) => log.pause());
  readonly resume = (): void => this.#change((log) => log.resume());

  #change(act: (log: TailLog) => void): void {
    act(this.#log);
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => {
      const { rows, received, waitingCount, isPaused } = this.#log;
      this.shown.value = { rows, received, waitingCount, isPaused };
    });
  }
}
