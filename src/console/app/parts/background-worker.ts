/**
 * A web worker that starts with the first message to it. After it was stopped or has failed, the next message starts it
 * again.
 */
export class BackgroundWorker<Request, Answer> {
  readonly #start: () => Worker;
  readonly #onAnswer: (answer: Answer) => void;
  readonly #onFailure: (reason: string) => void;
  #worker: Worker | null = null;

  constructor(start: () => Worker, onAnswer: (answer: Answer) => void, onFailure: (reason: string) => void) {
    this.#start = start;
    this.#onAnswer = onAnswer;
    this.#onFailure = onFailure;
  }

  send(request: Request): void {
    try {
      this.#worker ??= this.#listening(this.#start());
      this.#worker.postMessage(request, []);
    } catch (error) {
      this.#fail(error instanceof Error ? error.message : String(error));
    }
  }

  stop(): void {
    this.#worker?.terminate();
    this.#worker = null;
  }

  #listening(started: Worker): Worker {
    started.addEventListener("message", ({ data }: MessageEvent<Answer>) => this.#onAnswer(data));
    started.addEventListener("error", ({ message }) =>
      this.#fail(message === "" || message === undefined ? "Its file could not be loaded." : message),
    );
    return started;
  }

  #fail(reason: string): void {
    this.stop();
    this.#onFailure(reason);
  }
}
