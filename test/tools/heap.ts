/** The memory of an isolate of workerd, as its inspector reports it. */
import { createServer } from "node:net";
import { once } from "node:events";
import { setTimeout } from "node:timers/promises";

/** A port that is currently free. workerd does not report the port of its inspector. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  return address === null || typeof address === "string" ? 0 : address.port;
}

/** Time for an inspector command to reach the isolate. */
const collectedMs = 200;

export interface HeapUsage {
  /** Live objects, and garbage that has not yet been collected. */
  readonly usedSize: number;
  readonly totalSize: number;
  /** Memory outside of V8's heap, such as that of typed arrays. */
  readonly backingStorageSize?: number;
}

/** A connection to the inspector of one service's isolate. */
export class HeapInspector {
  readonly #socket: WebSocket;
  readonly #waiting = new Map<number, (result: unknown) => void>();
  #calls = 0;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.addEventListener("message", ({ data }) => {
      const { id, result } = JSON.parse(String(data)) as { id?: number; result?: unknown };
      if (id === undefined) return;
      this.#waiting.get(id)?.(result);
      this.#waiting.delete(id);
    });
  }

  /** @param port the port of `--inspector-addr` */
  static async connect(port: number, service: string): Promise<HeapInspector> {
    const socket = new WebSocket(`ws://127.0.0.1:${port}/${service}`);
    const opened = Promise.withResolvers<void>();
    socket.addEventListener("open", () => opened.resolve());
    socket.addEventListener("error", () =>
      opened.reject(new Error(`the inspector of "${service}" does not answer on port ${port}`)),
    );
    await opened.promise;
    return new HeapInspector(socket);
  }

  #call(method: string): Promise<unknown> {
    const id = (this.#calls += 1);
    const { promise, resolve } = Promise.withResolvers<unknown>();
    this.#waiting.set(id, resolve);
    this.#socket.send(JSON.stringify({ id, method }));
    return promise;
  }

  async usage(): Promise<HeapUsage> {
    return (await this.#call("Runtime.getHeapUsage")) as HeapUsage;
  }

  /**
   * The memory in use after a garbage collection.
   * @param wake sends the Worker a request, because the isolate collects only when it runs
   */
  async live(wake: () => Promise<unknown>): Promise<HeapUsage> {
    // Finalizers run after the first collection. The second collection frees what they release.
    for (let collection = 0; collection < 2; collection++) {
      const collected = this.#call("HeapProfiler.collectGarbage");
      // oxlint-disable-next-line no-await-in-loop
      await setTimeout(collectedMs);
      // oxlint-disable-next-line no-await-in-loop
      await wake();
      // oxlint-disable-next-line no-await-in-loop
      await collected;
    }
    return this.usage();
  }

  close(): void {
    this.#socket.close();
  }
}
