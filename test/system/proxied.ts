/** Headgate in front of an origin that the test controls step by step, and clients that can disconnect at any time. */
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
import { type WorkerdOptions, startWorkerd, type Workerd } from "../tools/workerd.ts";

/** A request at the origin, which waits until the test answers it. */
export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Resolves when the response has ended or the connection is closed. */
  readonly ended: Promise<unknown>;
}

type ExchangeHandler = (exchange: Exchange) => void;

export class Origin {
  readonly server: Server;
  /** Handlers that answer immediately, by path prefix. The longest matching prefix wins. */
  readonly answers = new Map<string, ExchangeHandler>();
  readonly #asked = new Map<string, Exchange[]>();
  readonly #awaited = new Map<string, ExchangeHandler[]>();
  readonly #times = new Map<string, number>();

  constructor() {
    this.server = createServer((request, response) => {
      // Gives equal requests equal responses, regardless of the time.
      response.sendDate = false;
      this.#meet({ request, response, ended: once(response, "close") });
    });
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  async listen(port = 0): Promise<void> {
    this.server.listen(port, "127.0.0.1");
    await once(this.server, "listening");
  }

  /** Closes the server and all connections. */
  async close(): Promise<void> {
    const closed = once(this.server, "close");
    this.server.close();
    this.server.closeAllConnections();
    await closed;
  }

  /** The next request at a path. Each request is returned once. */
  nextExchange(path: string): Promise<Exchange> {
    const before = this.#asked.get(path)?.shift();
    if (before !== undefined) return Promise.resolve(before);
    return new Promise((resolve) => void listOf(this.#awaited, path).push(resolve));
  }

  requestCount(path: string): number {
    return this.#times.get(path) ?? 0;
  }

  #meet(exchange: Exchange): void {
    const path = exchange.request.url ?? "";
    this.#times.set(path, this.requestCount(path) + 1);
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

export interface ClientOptions {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  /** The first chunk of a body that never ends. */
  readonly body?: string;
}

/** A client with its own connection. */
export class Client {
  readonly socket: Promise<Socket>;
  readonly answer: Promise<IncomingMessage>;
  readonly #request: ClientRequest;

  constructor(url: string, { body, ...clientOptions }: ClientOptions) {
    const request = requestOf(url, { agent: false, ...clientOptions });
    this.#request = request;
    const { promise: connected, resolve: connect } = Promise.withResolvers<Socket>();
    const { promise: answer, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    this.socket = connected;
    this.answer = answer;
    request.once("socket", (socket) => socket.once("connect", () => connect(socket)));
    request.once("response", resolve);
    request.on("error", reject);
    // Tests that disconnect never await the response, so its rejection would otherwise be unhandled.
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

  /** The status of the response to an upgrade: 101 when the server switches protocols. */
  async upgraded(): Promise<number> {
    const { promise, resolve } = Promise.withResolvers<number>();
    this.#request.once("upgrade", ({ statusCode = 0 }, socket) => {
      socket.destroy();
      resolve(statusCode);
    });
    return Promise.race([promise, this.status()]);
  }

  /** The first bytes of the response body. */
  async firstBytes(): Promise<string> {
    const answer = await this.answer;
    // The body ends with an error when the client disconnects.
    answer.on("error", () => undefined);
    const [data] = (await once(answer, "data")) as [Buffer];
    return data.toString();
  }

  /** Resolves when at least this much of the body has arrived. */
  async received(bytes: number): Promise<void> {
    const answer = await this.answer;
    answer.on("error", () => undefined);
    let unreadBytes = bytes;
    await new Promise<void>((resolve) => {
      answer.on("data", (data: Buffer) => {
        unreadBytes -= data.length;
        if (unreadBytes <= 0) resolve();
      });
    });
  }

  async disconnect(how: "destroy" | "resetAndDestroy"): Promise<void> {
    const socket = await this.socket;
    socket[how]();
  }
}

export const bodyOf = async (answer: IncomingMessage): Promise<Buffer> => Buffer.concat(await answer.toArray());

export interface Proxied {
  readonly origin: Origin;
  readonly workerd: Workerd;
  /** The configuration variables of Headgate. */
  readonly vars: Readonly<Record<string, string>>;
  readonly send: (path: string, key: string, clientOptions?: ClientOptions) => Client;
  readonly sendToOrigin: (path: string, clientOptions: ClientOptions) => Client;
  /** The remaining units of each limit of a policy. A global policy has an empty key. */
  readonly remaining: (policy: string, key: string) => Promise<number[]>;
  /** Resolves when the first limit has this number of units remaining. */
  readonly untilRemaining: (policy: string, key: string, units: number) => Promise<void>;
  readonly close: () => Promise<void>;
}

const token = "the-tests-token";

/** Starts Headgate with policies that are keyed by `X-Key`. Each policy matches the folder of its name. */
export async function startProxied(
  policies: readonly { readonly name: string }[],
  codeFor: (origin: Origin) => WorkerdOptions = () => ({}),
  variables: Readonly<Record<string, string>> = {},
): Promise<Proxied> {
  const origin = new Origin();
  await origin.listen();
  const folder = mkdtempSync(join(tmpdir(), "headgate-in-flight-"));
  const all = policies.map((policy) => ({
    key: "header:X-Key",
    match: { path: `/${policy.name}/*` },
    ...policy,
  }));
  const vars = {
    ORIGIN: origin.url,
    CHECK_TOKENS: token,
    POLICIES: JSON.stringify(all),
    ...variables,
  };
  const workerd = await startWorkerd(folder, vars, codeFor(origin));
  const remainingOf = async (policy: string, key: string): Promise<number[]> => {
    const query = key === "" ? "" : `&key=${key}`;
    const look = new URL(`/check?policy=${policy}${query}`, workerd.url);
    const response = await fetch(look, { headers: { Authorization: `Bearer ${token}` } });
    const { limits } = await response.json<{ limits: { remaining: number }[] }>();
    return limits.map(({ remaining }) => remaining);
  };
  return {
    origin,
    workerd,
    vars,
    remaining: remainingOf,
    untilRemaining: (policy, key, units) =>
      expect.poll(async () => (await remainingOf(policy, key))[0], { timeout: 10_000, interval: 10 }).toBe(units),
    send: (path, key, { headers = {}, ...clientOptions } = {}) =>
      new Client(new URL(path, workerd.url).href, {
        ...clientOptions,
        headers: { "X-Key": key, ...headers },
      }),
    sendToOrigin: (path, clientOptions) => new Client(new URL(path, origin.url).href, clientOptions),
    close: async () => {
      await workerd.close();
      await origin.close();
      rmSync(folder, { recursive: true });
    },
  };
}
