/** The tail while the view "Live" is open: its connection, its log, and what is shown of it. */
import { signal } from "@preact/signals";
import type { TailEntry, TailMessage, TailTicket } from "../api/answers.ts";
import { ApiProblem, call } from "../api/client.ts";
import { type TailFilter, TailLog, type TailRow } from "./tail-log.ts";

type TailState =
  | { readonly kind: "connecting" }
  | { readonly kind: "connected" }
  /** The connection is lost. The next attempt follows by itself. */
  | { readonly kind: "reconnecting"; readonly hasOpened: boolean }
  /** The API refuses a ticket. */
  | { readonly kind: "refused"; readonly problem: Error };

const pingMs = 30_000;
/** A connection that does not answer a ping within this time is lost, although the browser has not noticed it. */
const answerMs = 10_000;
const firstPauseMs = 1_000;
const longestPauseMs = 15_000;
/** An open tail makes every isolate report each second, so a page that stays hidden closes its tail after this time. */
const hiddenMs = 60_000;

export class TailConnection {
  readonly state = signal<TailState>({ kind: "connecting" });
  readonly #onEntries: (entries: readonly TailEntry[]) => void;
  #socket: WebSocket | null = null;
  #abort = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #hiddenTimer: ReturnType<typeof setTimeout> | undefined;
  #isSuspended = false;
  /** The failures since the last connection. */
  #failures = 0;

  constructor(onEntries: (entries: readonly TailEntry[]) => void) {
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
    this.#disconnect();
  }

  readonly #followVisibility = (): void => {
    clearTimeout(this.#hiddenTimer);
    if (document.hidden) {
      this.#hiddenTimer = setTimeout(() => {
        this.#disconnect();
        this.#isSuspended = true;
      }, hiddenMs);
    } else if (this.#isSuspended) {
      this.#connectNow();
    }
  };

  readonly #connectNow = (): void => {
    this.#isSuspended = false;
    this.#disconnect();
    this.#abort = new AbortController();
    addEventListener("online", this.#connectNow, { signal: this.#abort.signal });
    if (this.state.value.kind !== "reconnecting") this.state.value = { kind: "connecting" };
    void this.#connect(this.#abort.signal);
  };

  #disconnect(): void {
    clearTimeout(this.#timer);
    this.#abort.abort();
    this.#socket?.close();
    this.#socket = null;
  }

  async #connect(abort: AbortSignal): Promise<void> {
    try {
      const { ticket } = await call<TailTicket>("POST", "tail/ticket", { signal: abort });
      if (!abort.aborted) this.#open(ticket, abort);
    } catch (error) {
      if (abort.aborted) return;
      if (error instanceof ApiProblem && error.status < 500 && error.status !== 429) {
        this.state.value = { kind: "refused", problem: error };
      } else {
        this.#connectLater(false);
      }
    }
  }

  #open(ticket: string, abort: AbortSignal): void {
    const url = new URL(`api/tail?ticket=${encodeURIComponent(ticket)}`, document.baseURI);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(url);
    this.#socket = socket;
    let hasOpened = false;
    const options = { signal: abort };
    const lost = (): void => {
      if (this.#socket === socket) this.#connectLater(hasOpened);
    };
    socket.addEventListener(
      "open",
      () => {
        hasOpened = true;
        this.#failures = 0;
        this.state.value = { kind: "connected" };
        this.#pingLater(socket, lost);
      },
      options,
    );
    socket.addEventListener(
      "message",
      ({ data }: MessageEvent<string>) => {
        this.#pingLater(socket, lost);
        if (data !== "pong") this.#onEntries(entriesIn(data));
      },
      options,
    );
    socket.addEventListener("close", lost, options);
  }

  /** Every message shows that the connection works, so the time to the next ping starts again. */
  #pingLater(socket: WebSocket, lost: () => void): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      socket.send("ping");
      this.#timer = setTimeout(lost, answerMs);
    }, pingMs);
  }

  #connectLater(hasOpened: boolean): void {
    this.#disconnect();
    this.#abort = new AbortController();
    addEventListener("online", this.#connectNow, { signal: this.#abort.signal });
    this.state.value = { kind: "reconnecting", hasOpened };
    const pauseMs = Math.min(longestPauseMs, firstPauseMs * 2 ** this.#failures);
    this.#failures += 1;
    this.#timer = setTimeout(this.#connectNow, pauseMs * (0.5 + Math.random() / 2));
  }
}

const entriesIn = (message: string): readonly TailEntry[] =>
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- contract tests of the admin API check the messages
  (JSON.parse(message) as TailMessage).entries;

interface ShownLog {
  readonly rows: readonly TailRow[];
  /** All denials that have arrived. */
  readonly received: number;
  /** The denials that match and have arrived while paused. */
  readonly waitingCount: number;
  readonly isPaused: boolean;
}

/** The connection of the view, and what is shown of its log. */
export class LiveTail {
  readonly connection = new TailConnection((entries) => this.#change((log) => log.add(entries)));
  /** Changes once per frame at most, and never while the page is hidden. */
  readonly shown = signal<ShownLog>({ rows: [], received: 0, waitingCount: 0, isPaused: false });
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
