/** The tail while the view "Live" is open: its connection, its log, and what is shown of it. */
import { type ReadonlySignal, signal } from "@preact/signals";
import type { TailEntry } from "../api/answers.ts";
import { TailConnection, type TailState } from "../api/tail.ts";
import { type TailFilter, TailLog, type TailRow } from "./tail-log.ts";

export interface ShownLog {
  readonly rows: readonly TailRow[];
  /** All denials that have arrived. */
  readonly received: number;
  /** The denials that match and have arrived while paused. */
  readonly waitingCount: number;
  readonly isPaused: boolean;
}

export class LiveTail {
  readonly #log: TailLog;
  readonly #connection = new TailConnection((entries) => this.#add(entries));
  readonly #shown = signal<ShownLog>({ rows: [], received: 0, waitingCount: 0, isPaused: false });
  #frame = 0;

  constructor(filter: TailFilter) {
    this.#log = new TailLog(filter);
  }

  /** Changes once per frame at most, and never while the page is hidden. */
  get shown(): ReadonlySignal<ShownLog> {
    return this.#shown;
  }

  get state(): ReadonlySignal<TailState> {
    return this.#connection.state;
  }

  readonly connect = (): void => this.#connection.connect();

  stop(): void {
    this.#connection.stop();
    cancelAnimationFrame(this.#frame);
  }

  setFilter(filter: TailFilter): void {
    this.#log.filter(filter);
    this.#show();
  }

  readonly pause = (): void => {
    this.#log.pause();
    this.#show();
  };

  readonly resume = (): void => {
    this.#log.resume();
    this.#show();
  };

  #add(entries: readonly TailEntry[]): void {
    this.#log.add(entries);
    this.#show();
  }

  #show(): void {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => {
      const { rows, received, waitingCount, isPaused } = this.#log;
      this.#shown.value = { rows, received, waitingCount, isPaused };
    });
  }
}
