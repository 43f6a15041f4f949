/**
 * One isolate with Headgate's Worker and 32 shards, which receives new keys from a Worker in the same process. V8
 * reports the size of the heap at each garbage collection, so that the measurement misses no peak.
 */
import { freePort, HeapInspector } from "../heap.ts";
import { startWorkerd } from "../workerd.ts";

/** The largest allowed heap, including garbage. The platform ends an isolate at 128 MB. */
export const boundBytes = 96_000_000;

export const consistencies = ["strict", "leased", "eventual"] as const;
export type Consistency = (typeof consistencies)[number];

const token = "the-token-of-the-memory-measurement";
const shared = {
  objects: "sharded",
  shards: 32,
  key: ["header:x-key"],
  match: { path: "/none" },
  timeout: "30s",
};

const policies: readonly Readonly<Record<string, unknown>>[] = [
  ...consistencies.map((consistency) => ({ name: consistency, consistency, limits: "1000/hour" })),
  { name: "denying", limits: "1/day", strategy: "fixed-window" },
].map((policy) => ({ ...shared, ...policy }));

/** Enough denials to fill the deny cache. */
const deniedKeys = 6_000;

/**
 * Checks new keys, singly and in batches of 100. A check of cost 10 makes a leased key borrow at once. Batches never
 * borrow, so leased keys are checked singly.
 */
const senderCode = `
const post = async (headgate, path, body) => {
  const response = await headgate.fetch("http://headgate" + path, {
    method: "POST",
    headers: { authorization: "Bearer ${token}", "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(response.status + " " + JSON.stringify(answer));
};

export default {
  async fetch(request, { HEADGATE_HTTP }) {
    const { path, policy, from, count, singles, batches, ...check } = await request.json();
    let next = from;
    const take = (most) => {
      const first = next;
      next = Math.min(from + count, next + most);
      const checks = [];
      for (let number = first; number < next; number++) {
        checks.push({ policy, key: "visitor-" + number, ...check });
      }
      return checks;
    };
    const single = async () => {
      for (let [check] = take(1); check !== undefined; [check] = take(1)) {
        await post(HEADGATE_HTTP, path, check);
      }
    };
    const batch = async () => {
      for (let checks = take(100); checks.length > 0; checks = take(100)) {
        await post(HEADGATE_HTTP, "/check/batch", { checks });
      }
    };
    await Promise.all([
      ...Array.from({ length: singles }, single),
      ...Array.from({ length: batches }, batch),
    ]);
    return new Response();
  },
};
`;

/** The sizes of the heap since the last step, in bytes, including garbage. */
export interface HeapStep {
  readonly mostBytes: number;
  readonly leastBytes: number;
}

export interface BusyIsolate {
  /** Sends new keys of one consistency. */
  readonly send: (consistency: Consistency, count: number) => Promise<HeapStep>;
  /** Makes reservations of new keys that are never settled. */
  readonly reserve: (count: number) => Promise<HeapStep>;
  /** The size of live objects after a forced garbage collection, in bytes. */
  readonly liveBytes: () => Promise<number>;
  readonly close: () => Promise<void>;
}

/** @param folder the caller's folder for the bundle and the storage */
export async function startBusyIsolate(folder: string): Promise<BusyIsolate> {
  const port = await freePort();
  const collections = new Collections();
  const workerd = await startWorkerd(
    folder,
    { POLICIES: JSON.stringify(policies), CHECK_TOKENS: token },
    {
      other: senderCode,
      flags: [`--inspector-addr=127.0.0.1:${port}`],
      v8Flags: ["--trace-gc"],
      print: (text) => collections.read(text),
    },
  );
  const inspector = await HeapInspector.connect(port, "headgate");
  let sent = 0;
  const single = { singles: 32, batches: 0 };
  const mixed = { singles: 28, batches: 4 };
  const send = async (policy: string, count: number, call: object): Promise<HeapStep> => {
    const senders = policy === "leased" ? single : mixed;
    const body = JSON.stringify({ path: "/check", policy, from: sent, count, ...senders, ...call });
    sent += count;
    const response = await fetch(workerd.otherUrl, { method: "POST", body });
    if (!response.ok) throw new Error(await response.text());
    const { usedSize } = await inspector.usage();
    const sizes = [...collections.take(), usedSize];
    return { mostBytes: Math.max(...sizes), leastBytes: Math.min(...sizes) };
  };
  await send("denying", deniedKeys, { cost: 2 });
  return {
    send: (consistency, count) => send(consistency, count, { cost: 10 }),
    reserve: (count) => send("strict", count, { ...single, path: "/check/reserve", cost: 1, ttlMs: 3_600_000 }),
    liveBytes: async () => {
      const live = await inspector.live(async () => (await fetch(new URL("/check/health", workerd.url))).arrayBuffer());
      return live.usedSize;
    },
    close: async () => {
      inspector.close();
      await workerd.close();
    },
  };
}

/** A line of `--trace-gc`: the isolate, and the used and reserved MiB before and after a collection. */
const collectionLine =
  /^\[\d+:(?<isolate>0x[\da-f]+)[^\]]*\]\s+\d+ ms: [A-Z][^\d]*(?<before>[\d.]+) \([\d.]+\) -> (?<after>[\d.]+) \(/;

/** The heap sizes in the lines of `--trace-gc`. The isolate with the largest heap is Headgate's. */
export class Collections {
  readonly #sizesByIsolate = new Map<string, number[]>();
  readonly #mostByIsolate = new Map<string, number>();
  #rest = "";

  read(text: string): void {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      const { isolate, before, after } = collectionLine.exec(line)?.groups ?? {};
      if (isolate === undefined) continue;
      const sizes = [Number(before) * 2 ** 20, Number(after) * 2 ** 20];
      this.#sizesByIsolate.set(isolate, [...(this.#sizesByIsolate.get(isolate) ?? []), ...sizes]);
      this.#mostByIsolate.set(isolate, Math.max(this.#mostByIsolate.get(isolate) ?? 0, ...sizes));
    }
  }

  /** The heap sizes before and after each collection since the last call. */
  take(): number[] {
    const [largest] = [...this.#mostByIsolate].toSorted(([, a], [, b]) => b - a);
    const sizes = largest === undefined ? [] : (this.#sizesByIsolate.get(largest[0]) ?? []);
    this.#sizesByIsolate.clear();
    return sizes;
  }
}
