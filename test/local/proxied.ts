/** Headgate in front of an origin of which a test decides every step, and clients that may go away at any time. */
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import {
  type ClientRequest,
  createServer,
  type IncomingMessage,
  request as requestOf,
  type Server,
  type ServerResponse,
} from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import { type Surroundings, startWorkerd, type Workerd } from "../tools/workerd.ts";

/** What the origin was asked, which waits until the test answers. */
export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Resolves when it is over for the origin: answered to the end, or without anyone to answer. */
  readonly over: Promise<unknown>;
}

type Answering = (exchange: Exchange) => void;

export class Origin {
  readonly server: Server;
  /** What paths that begin so are answered at once; the longest that fits holds. */
  readonly answers = new Map<string, Answering>();
  readonly #asked = new Map<string, Exchange[]>();
  readonly #awaited = new Map<string, Answering[]>();
  readonly #times = new Map<string, number>();

  constructor() {
    this.server = createServer((request, response) => {
      this.#meet({ request, response, over: once(response, "close") });
    });
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  async listen(port = 0): Promise<void> {
    this.server.listen(port, "127.0.0.1");
    await once(this.server, "listening");
  }

  /** Cannot be reached from then on. */
  async close(): Promise<void> {
    const closed = once(this.server, "close");
    this.server.close();
    this.server.closeAllConnections();
    await closed;
  }

  /** What it is asked at a path, once for each time. */
  asked(path: string): Promise<Exchange> {
    const before = this.#asked.get(path)?.shift();
    if (before !== undefined) return Promise.resolve(before);
    return new Promise((resolve) => void listOf(this.#awaited, path).push(resolve));
  }

  timesAsked(path: string): number {
    return this.#times.get(path) ?? 0;
  }

  #meet(exchange: Exchange): void {
    const path = exchange.request.url ?? "";
    this.#times.set(path, this.timesAsked(path) + 1);
    const [beginning = ""] = [...this.answers.keys()]
      .filter((each) => path.startsWith(each))
      .toSorted((a, b) => b.length - a.length);
    const answer = this.answers.get(beginning);
    if (answer !== undefined) return answer(exchange);
    const awaited = this.#awaited.get(path)?.shift();
    if (awaited === undefined) listOf(this.#asked, path).push(exchange);
    else awaited(exchange);
  }
}

function listOf<Each>(lists: Map<string, Each[]>, name: string): Each[] {
  const list = lists.get(name) ?? [];
  lists.set(name, list);
  return list;
}

export interface Asking {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  /** The beginning of a body of which no more comes. */
  readonly body?: string;
}

/** A client with a connection of its own. */
export class Client {
  readonly socket: Promise<Socket>;
  readonly answer: Promise<IncomingMessage>;
  readonly #request: ClientRequest;

  constructor(url: string, { body, ...asking }: Asking) {
    const request = requestOf(url, { agent: false, ...asking });
    this.#request = request;
    const { promise: connected, resolve: connect } = Promise.withResolvers<Socket>();
    const { promise: answer, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    this.socket = connected;
    this.answer = answer;
    request.once("socket", (socket) => socket.once("connect", () => connect(socket)));
    request.once("response", resolve);
    request.on("error", reject);
    // Who goes away on purpose waits for no answer.
    answer.catch(() => undefined);
    if (body === undefined) request.end();
    else request.write(body);
  }

  async status(): Promise<number> {
    const answer = await this.answer;
    answer.resume();
    if (!answer.readableEnded) await once(answer, "end");
    return answer.statusCode ?? 0;
  }

  /** The status of the answer to an upgrade, which is 101 where the server switches protocols. */
  async upgraded(): Promise<number> {
    const { promise, resolve } = Promise.withResolvers<number>();
    this.#request.once("upgrade", ({ statusCode = 0 }, socket) => {
      socket.destroy();
      resolve(statusCode);
    });
    return Promise.race([promise, this.status()]);
  }

  /** The first bytes of the body, when they have come. */
  async beginning(): Promise<string> {
    const answer = await this.answer;
    // It ends in the midst of the body when the client goes away.
    answer.on("error", () => undefined);
    const [data] = (await once(answer, "data")) as [Buffer];
    return data.toString();
  }

  /** Resolves when so much of the body has come. */
  async took(bytes: number): Promise<void> {
    const answer = await this.answer;
    answer.on("error", () => undefined);
    let left = bytes;
    await new Promise<void>((resolve) => {
      answer.on("data", (data: Buffer) => {
        left -= data.length;
        if (left <= 0) resolve();
      });
    });
  }

  async leave(how: "destroy" | "resetAndDestroy"): Promise<void> {
    const socket = await this.socket;
    socket[how]();
  }
}

export const bodyOf = async (answer: IncomingMessage): Promise<Buffer> =>
  Buffer.concat(await answer.toArray());

export interface Proxied {
  readonly origin: Origin;
  readonly workerd: Workerd;
  readonly ask: (path: string, key: string, asking?: Asking) => Client;
  readonly askOrigin: (path: string, asking: Asking) => Client;
  /** What is left of each limit of a policy; a global one has no key. */
  readonly left: (policy: string, key: string) => Promise<number[]>;
  /** Resolves when so much is left of the first limit. */
  readonly leftIs: (policy: string, key: string, units: number) => Promise<void>;
  readonly close: () => Promise<void>;
}

const token = "the-tests-token";

/** Policies each have a folder of their name, and are counted by `X-Key`. */
export async function startProxied(
  policies: readonly { readonly name: string }[],
  codeFor: (origin: Origin) => Surroundings = () => ({}),
): Promise<Proxied> {
  const origin = new Origin();
  await origin.listen();
  const folder = mkdtempSync(join(tmpdir(), "headgate-in-flight-"));
  const all = policies.map((policy) => ({
    key: "header:X-Key",
    match: { path: `/${policy.name}/*` },
    ...policy,
  }));
  const vars = { ORIGIN: origin.url, CHECK_TOKENS: token, POLICIES: JSON.stringify(all) };
  const workerd = await startWorkerd(folder, vars, codeFor(origin));
  const left = async (policy: string, key: string): Promise<number[]> => {
    const query = key === "" ? "" : `&key=${key}`;
    const look = new URL(`/check?policy=${policy}${query}`, workerd.url);
    const response = await fetch(look, { headers: { Authorization: `Bearer ${token}` } });
    const { limits } = await response.json<{ limits: { remaining: number }[] }>();
    return limits.map(({ remaining }) => remaining);
  };
  return {
    origin,
    workerd,
    left,
    leftIs: (policy, key, units) =>
      expect
        .poll(async () => (await left(policy, key))[0], { timeout: 10_000, interval: 10 })
        .toBe(units),
    ask: (path, key, { headers = {}, ...asking } = {}) =>
      new Client(new URL(path, workerd.url).href, {
        ...asking,
        headers: { "X-Key": key, ...headers },
      }),
    askOrigin: (path, asking) => new Client(new URL(path, origin.url).href, asking),
    close: async () => {
      await workerd.close();
      await origin.close();
      rmSync(folder, { recursive: true });
    },
  };
}
