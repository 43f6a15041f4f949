/** Changes rules of policies, and measures when every isolate with traffic follows. */
import { setTimeout } from "node:timers/promises";
import { change, setLimits } from "./admin-client.ts";

const policies = 12;

export const policyNames = Array.from({ length: policies }, (_, number) => `policy-${number}`);

/**
 * All of these policies match every request, so that one request shows the limits of all. Isolates use different keys:
 * with a common key, its object would pass newer rules from one isolate to the next before a beat does.
 */
export const changedPolicies = policyNames.map((name) => ({
  name,
  key: "header:x-key",
  match: { path: "/traffic" },
  limits: "1000000/hour",
  timeout: "30s",
}));

const everyMs = 50;
const patienceMs = 60_000;

interface Awaited {
  readonly policy: string;
  readonly limit: number;
  readonly waiting: Set<URL>;
  readonly done: () => void;
}

/** Each isolate gets a request every 50 ms. */
export class Traffic {
  requests = 0;
  readonly #awaited = new Set<Awaited>();
  #isOver = false;
  readonly #loops: Promise<unknown>;
  readonly #urls: readonly URL[];

  /**
   * The traffic of the isolates starts at times that are distributed over this period, so that their beats are not
   * simultaneous.
   */
  constructor(urls: readonly URL[], startsWithinMs: number) {
    this.#urls = urls;
    const loops = urls.map(async (url, number) => {
      await setTimeout((number * startsWithinMs) / urls.length);
      await this.#loop(url, number);
    });
    this.#loops = Promise.all(loops);
  }

  /** Resolves when every isolate has shown this limit of a policy. */
  async follows(policy: string, limit: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const awaited = { policy, limit, waiting: new Set(this.#urls), done: resolve };
    this.#awaited.add(awaited);
    const late = setTimeout(patienceMs, "late" as const, { ref: false });
    if ((await Promise.race([promise, late])) === "late") {
      throw new Error(`${policy}: not every isolate follows after ${patienceMs} ms`);
    }
    this.#awaited.delete(awaited);
  }

  async end(): Promise<void> {
    this.#isOver = true;
    await this.#loops;
  }

  async #loop(url: URL, number: number): Promise<void> {
    const request = new URL("/traffic", url);
    const headers = { "x-key": `isolate-${number}` };
    while (!this.#isOver) {
      const nextMs = performance.now() + everyMs;
      // oxlint-disable no-await-in-loop
      const response = await fetch(request, { headers });
      await response.arrayBuffer();
      this.requests++;
      this.#note(url, response.headers.get("ratelimit-policy") ?? "");
      await setTimeout(Math.max(0, nextMs - performance.now()));
      // oxlint-enable no-await-in-loop
    }
  }

  #note(url: URL, shown: string): void {
    for (const { policy, limit, waiting, done } of this.#awaited) {
      if (!shown.includes(`"${policy}";q=${limit};`)) continue;
      waiting.delete(url);
      if (waiting.size === 0) done();
    }
  }
}

/** Changes each of the policies once, at random moments within one beat, and returns how long each change took. */
export async function changePolicies(
  traffic: Traffic,
  operator: URL,
  { names, limit, withinMs, random }: PolicyChanges,
): Promise<number[]> {
  return Promise.all(
    names.map(async (policy) => {
      await setTimeout(random() * withinMs);
      const startedMs = performance.now();
      const followed = traffic.follows(policy, limit);
      await setLimits(operator, policy, `${limit}/hour`);
      await followed;
      return performance.now() - startedMs;
    }),
  );
}

export interface PolicyChanges {
  readonly names: readonly string[];
  readonly limit: number;
  /** The changes begin within this period. */
  readonly withinMs: number;
  /** From 0 up to 1. */
  readonly random: () => number;
}

/** Opens the live tail, as a console does. Beats are then due every second. */
export async function openTail(url: URL): Promise<WebSocket> {
  const { body } = await change(url, "POST", "/tail/ticket");
  const { ticket } = body as { ticket: string };
  const socket = new WebSocket(`ws://${url.host}/_headgate/api/tail?ticket=${ticket}`);
  const opened = Promise.withResolvers<void>();
  socket.addEventListener("open", () => opened.resolve());
  socket.addEventListener("error", () => opened.reject(new Error("the tail does not open")));
  await opened.promise;
  return socket;
}
