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

/** The denials of one key by one policy, with the same outcome. */
interface CountedOutcome {
  readonly outcome: OutcomeName;
  readonly count: number;
  /** How many of them arrived while paused. */
  readonly waiting: number;
  readonly newest: TailEntryView;
}

/** The denials of one key by one policy. */
export interface TailRow extends Pick<TailEntryView, "policy" | "key"> {
  /** The place of the row: from 1, in the order in which rows appeared. It stays when the row counts further denials. */
  readonly number: number;
  /** When the first of its denials was. */
  readonly firstMs: number;
  /** The outcome of the newest denial is first. */
  readonly outcomes: readonly [CountedOutcome, ...CountedOutcome[]];
}

export const mostKeys = 500;

export const denialsOf = ({ outcomes }: TailRow): number => outcomes.reduce((sum, { count }) => sum + count, 0);

const isListed = ({ policy, key }: Pick<TailEntryView, "policy" | "key">, filter: TailFilter): boolean =>
  (filter.policy === null || policy === filter.policy) && key.startsWith(filter.key);

/** The row without what the filter hides; null when the filter hides all of it. */
function filtered(row: TailRow, filter: TailFilter): TailRow | null {
  const [first, ...others] = row.outcomes.filter(
    ({ outcome }) => filter.outcome === null || outcome === filter.outcome,
  );
  return first === undefined || !isListed(row, filter) ? null : { ...row, outcomes: [first, ...others] };
}

/** The rows of the keys that were denied last, in bounded memory. */
export class TailLog {
  /** The number of all denials that have arrived. */
  received = 0;
  /** The shown rows, the newest first. They do not change while paused. */
  rows: readonly TailRow[] = [];
  /** The number of matching denials that arrived while paused. */
  waitingCount = 0;
  isPaused = false;
  #filter: TailFilter;
  #lastNumber = 0;
  /** By policy and key, the key that was denied last at the end. */
  #byKey = new Map<string, TailRow>();

  constructor(filter: TailFilter) {
    this.#filter = filter;
  }

  /** Keeps only matching denials, so that a flood under one policy does not push out the rows of another. */
  add(entries: readonly TailEntryView[]): void {
    this.received += entries.length;
    const { outcome } = this.#filter;
    for (const entry of entries) {
      if (isListed(entry, this.#filter) && (outcome === null || entry.outcome === outcome)) this.#count(entry);
    }
    this.#show();
  }

  pause(): void {
    this.isPaused = true;
  }

  resume(): void {
    this.isPaused = false;
    for (const [name, row] of this.#byKey) {
      const [first, ...others] = row.outcomes;
      const outcomes = [seen(first), ...others.map(seen)] as const;
      this.#byKey.set(name, { ...row, outcomes });
    }
    this.waitingCount = 0;
    this.#show();
  }

  /** Removes the denials that do not match. Those that an earlier filter removed do not come back. */
  filter(filter: TailFilter): void {
    this.#filter = filter;
    const kept = [...this.#byKey].flatMap(([name, row]) => {
      const left = filtered(row, filter);
      return left === null ? [] : [[name, left] as const];
    });
    this.#byKey = new Map(kept);
    this.rows = this.rows.flatMap((row) => filtered(row, filter) ?? []);
    this.waitingCount = kept.flatMap(([, { outcomes }]) => outcomes).reduce((sum, { waiting }) => sum + waiting, 0);
    this.#show();
  }

  #count(entry: TailEntryView): void {
    const { policy, key, outcome } = entry;
    const name = `${policy} ${key}`;
    const known = this.#byKey.get(name);
    if (known === undefined) this.#lastNumber += 1;
    const same = known?.outcomes.find((each) => each.outcome === outcome);
    const others = known?.outcomes.filter((each) => each !== same) ?? [];
    const waiting = this.isPaused ? 1 : 0;
    this.waitingCount += waiting;
    const counted: CountedOutcome = {
      outcome,
      count: (same?.count ?? 0) + 1,
      waiting: (same?.waiting ?? 0) + waiting,
      newest: entry,
    };
    this.#byKey.delete(name);
    const firstMs = Math.min(known?.firstMs ?? entry.atMs, entry.atMs);
    const number = known?.number ?? this.#lastNumber;
    this.#byKey.set(name, { policy, key, number, firstMs, outcomes: [counted, ...others] });
    if (this.#byKey.size <= mostKeys) return;
    const [oldest = ""] = this.#byKey.keys();
    this.#byKey.delete(oldest);
  }

  #show(): void {
    if (!this.isPaused) this.rows = [...this.#byKey.values()].toSorted((one, other) => other.number - one.number);
  }
}

const seen = (counted: CountedOutcome): CountedOutcome => ({ ...counted, waiting: 0 });

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
