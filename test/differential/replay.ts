/**
 * Sends recorded requests, one after the other, to a Worker whose objects are in memory. Records its responses, its log
 * and its requests to the origin.
 */
import { emptyBeat } from "../fakes/empty-beat.ts";
import type { RowStorage } from "../../src/limiter/object/key-storage.ts";
import type { Timer } from "../../src/limiter/clock.ts";
import { MemoryStorage } from "../../src/sdk/testing/memory-storage.ts";
import { VirtualTime, withSurroundings } from "./virtual-time.ts";

type Fetch = (request: Request, env: object, context: object) => Response | Promise<Response>;

/** The entry point of one version of the Worker. */
export interface Target {
  readonly name: string;
  /** The fetch handler of a Worker with these variables and bindings. */
  readonly handlerOf: (env: object) => Fetch;
  readonly newObject: (platform: {
    readonly storage: RowStorage;
    readonly now: () => number;
    readonly after: Timer;
  }) => { alarm(): Promise<void> };
}

export interface RecordedRequest {
  readonly atMs: number;
  /** The variables of the Worker. Requests with the same variables go to the same Worker. */
  readonly variables: object;
  readonly url: string;
  readonly init: RequestInit<IncomingRequestCfProperties>;
  /** The response at the time of the recording, if later requests may contain its ids or its ETag. */
  response?: { readonly body: string; readonly etag: string | null };
}

/** The effects of a request that are compared between versions. */
export interface Answer {
  readonly status: number;
  readonly fields: readonly (readonly [string, string])[];
  /** One character per byte. */
  readonly body: string;
  readonly isSocket: boolean;
  /** The requests that the origin received. */
  readonly forwarded: readonly string[];
  /** The log lines in alphabetical order: their original order depends on how fast each object replies. */
  readonly log: readonly string[];
}

export type Origin = (request: Request) => Promise<Response>;

const silent = async (): Promise<never> => {
  throw new Error("the control plane of the replay accepts only beats");
};
/** A control plane that has no rules in its replies to beats, and rejects all other calls. */
const stub = new Proxy(
  { beat: async () => emptyBeat },
  { get: (methods, name) => Reflect.get(methods, name) ?? silent },
);
const controlPlane = { getByName: () => stub };

export async function replay(target: Target, requests: readonly RecordedRequest[], origin: Origin): Promise<Answer[]> {
  const time = new VirtualTime();
  const objects = new MemoryObjects(target, time);
  const bindings = { RATE_LIMITER: objects.namespace, CONTROL_PLANE: controlPlane };
  const workers = new Map<object, Fetch>();
  const names = new Map<string, string>();
  const answers: Answer[] = [];
  let log: string[] = [];
  let forwarded: string[] = [];
  const surroundings = {
    time,
    log: (line: string) => void log.push(asBefore(line)),
    fetch: async (...given: Parameters<typeof fetch>) => {
      const request = new Request(...given);
      forwarded.push(await textOf(request.clone()));
      return time.hold(Promise.resolve(request).then(origin));
    },
  };
  await withSurroundings(surroundings, async (seedWith) => {
    for (const [index, request] of requests.entries()) {
      [log, forwarded] = [[], []];
      seedWith(index);
      // Requests are replayed one after the other, so that each has the same history in every replay.
      // oxlint-disable no-await-in-loop
      await time.set(request.atMs);
      await objects.runAlarms();
      const { variables } = request;
      const worker =
        workers.get(variables) ?? target.handlerOf({ ...variables, ...bindings, ...withoutObjects(variables) });
      workers.set(variables, worker);
      const response = await send(worker, renamed(request, names), time);
      // oxlint-enable no-await-in-loop
      rename(names, request.response, response);
      answers.push({ ...response, forwarded, log: log.toSorted() });
    }
  });
  return answers;
}

/**
 * A test without objects is replayed without objects. Any other substitute for the objects is replaced by objects in
 * memory.
 */
const withoutObjects = ({ RATE_LIMITER }: { readonly RATE_LIMITER?: object }): object =>
  RATE_LIMITER !== undefined && Object.keys(RATE_LIMITER).length === 0 ? { RATE_LIMITER: noObjects } : {};

/** Stands in for missing objects, so that the error has the same text in every build. */
const noObjects = {
  getByName: (): never => {
    throw new Error("there are no objects");
  },
};

async function send(
  worker: Fetch,
  { url, init }: Pick<RecordedRequest, "url" | "init">,
  time: VirtualTime,
): Promise<Omit<Answer, "forwarded" | "log">> {
  const work: Promise<unknown>[] = [];
  const context = {
    waitUntil: (each: Promise<unknown>) => void work.push(each),
    passThroughOnException: () => undefined,
  };
  const request = new Request(url, init);
  // Node's `Request` ignores `cf`.
  if (init.cf !== undefined && request.cf === undefined) {
    Object.defineProperty(request, "cf", { value: init.cf });
  }
  const response = await time.until(Promise.resolve(worker(request, {}, context)));
  const isSocket = response.webSocket !== null && response.webSocket !== undefined;
  const bytes = isSocket ? new ArrayBuffer() : await time.until(response.arrayBuffer());
  if (isSocket) {
    response.webSocket?.accept();
    response.webSocket?.close();
  }
  // Work may add more work.
  // oxlint-disable-next-line no-await-in-loop
  while (work.length > 0) await time.until(Promise.allSettled(work.splice(0)));
  return {
    status: response.status,
    // The previous version did not set Date, which Cloudflare's network adds.
    fields: [...response.headers].filter(([name]) => name !== "date"),
    body: asBefore(new TextDecoder("latin1").decode(bytes)),
    isSocket,
  };
}

/**
 * The previous version did not state the instance of a denial, which is random, and problems of the configuration did not
 * name the policy.
 */
const asBefore = (text: string): string =>
  text
    .replaceAll(/,"instance":"urn:uuid:[\da-f-]{36}"/g, "")
    .replaceAll(/,"policy":"[^"]*","accepted":/g, ',"accepted":')
    .replaceAll(/(POLICIES(?:_\d+)?\[\d+\]) \([^)]*\) /g, "$1.");

async function textOf(request: Request): Promise<string> {
  const lines = [...request.headers].map(([name, value]) => `${name}: ${value}`);
  return [`${request.method} ${request.url}`, ...lines, "", await request.text()].join("\n");
}

const idsIn = (body: string): string[] => [...body.matchAll(/"id":"([^"]+)"/g)].map(([, id = ""]) => id);

/** Maps random names in the recorded response to those in the replayed response. */
function rename(
  names: Map<string, string>,
  recorded: RecordedRequest["response"],
  { body, fields }: { readonly body: string; readonly fields: Answer["fields"] },
): void {
  if (recorded === undefined) return;
  const ids = idsIn(body);
  for (const [index, id] of idsIn(recorded.body).entries()) names.set(id, ids[index] ?? id);
  const etag = fields.find(([name]) => name === "etag")?.[1];
  if (recorded.etag !== null && etag !== undefined) names.set(recorded.etag, etag);
}

function renamed(
  { url, init }: RecordedRequest,
  names: ReadonlyMap<string, string>,
): Pick<RecordedRequest, "url" | "init"> {
  if (names.size === 0) return { url, init };
  const inText = (text: string): string =>
    [...names].reduce((changed, [from, to]) => changed.replaceAll(from, to), text);
  const headers = [...new Headers(init.headers)].map(([name, value]) => [name, inText(value)]);
  const body = typeof init.body === "string" ? { body: inText(init.body) } : {};
  return { url: inText(url), init: { ...init, headers, ...body } };
}

/** The objects of one deployment. Their replies are copies, as those of a call between processes are. */
class MemoryObjects {
  readonly #objects = new Map<
    string,
    { readonly storage: MemoryStorage; readonly limiter: ReturnType<Target["newObject"]> }
  >();
  readonly #target: Target;
  readonly #time: VirtualTime;

  constructor(target: Target, time: VirtualTime) {
    this.#target = target;
    this.#time = time;
  }

  readonly namespace = {
    getByName: (name: string) => {
      const { limiter } = this.#object(name);
      const call =
        (method: string) =>
        async (...given: unknown[]) => {
          const act: unknown = Reflect.get(limiter, method);
          // The platform's error for a method that the object's version lacks.
          if (typeof act !== "function") {
            throw new TypeError(`The RPC receiver does not implement the method "${method}".`);
          }
          return structuredClone(Reflect.apply(act, limiter, structuredClone(given)));
        };
      return new Proxy({}, { get: (_, method) => call(String(method)) });
    },
  };

  async runAlarms(): Promise<void> {
    for (const { storage, limiter } of this.#objects.values()) {
      if ((storage.alarmAtMs ?? Number.POSITIVE_INFINITY) > this.#time.nowMs) continue;
      storage.alarmAtMs = null;
      // oxlint-disable-next-line no-await-in-loop
      await limiter.alarm();
    }
  }

  #object(name: string) {
    const known = this.#objects.get(name);
    if (known !== undefined) return known;
    const storage = new MemoryStorage();
    const { after } = this.#time;
    const limiter = this.#target.newObject({ storage, now: () => this.#time.nowMs, after });
    const object = { storage, limiter };
    this.#objects.set(name, object);
    return object;
  }
}
