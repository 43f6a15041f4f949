/**
 * The demo of `npm start`: its origin, an example request of a policy, and `--demo-traffic`, whose visitors send requests
 * to this machine only, and only while the demo origin is behind the Worker.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { setTimeout } from "node:timers/promises";
import type { LocalSetup } from "./local-setup.ts";
import { NoAnswer, sendRequest } from "./request.ts";
import type { KeyPart } from "../policy/key.ts";
import type { Policy } from "../policy/policy.ts";
import type { Config } from "../policy/vars/config.ts";

export interface DemoOrigin {
  readonly url: string;
  close(): void;
}

export async function startDemoOrigin(): Promise<DemoOrigin> {
  let served = 0;
  const server = createServer((request, response) => {
    served += 1;
    respond(request, response, served);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port to listen on");
  return {
    url: `http://127.0.0.1:${address.port}`,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

const maxEchoedBytes = 1_024;

function respond(request: IncomingMessage, response: ServerResponse, served: number): void {
  const bodyChunks: Buffer[] = [];
  let sizeBytes = 0;
  request.on("data", (chunk: Buffer) => {
    if (sizeBytes < maxEchoedBytes) bodyChunks.push(chunk.subarray(0, maxEchoedBytes - sizeBytes));
    sizeBytes += chunk.length;
  });
  request.on("end", () => {
    response.writeHead(200, { "Content-Type": "application/json" });
    const received = {
      origin: "Hello from the demo origin.",
      served,
      method: request.method,
      path: request.url,
      ...(sizeBytes > 0 && { sizeBytes, body: Buffer.concat(bodyChunks).toString("utf8") }),
    };
    response.end(`${JSON.stringify(received, null, 2)}\n`);
  });
}

/** The client address of requests to local workerd. */
const loopbackAddress = "127.0.0.1";
/** A documentation address (RFC 5737). */
const forwardedAddress = "203.0.113.7";
const exampleValue = "example";

/** No `curl` command can choose these key parts: tokens must be signed, and the runtime supplies the location. */
const unavailableKeyParts: ReadonlySet<KeyPart["kind"]> = new Set(["jwt", "country", "continent", "asn", "colo"]);

/**
 * The policy of the example: the first one that charges a request which `curl` can send, else the first of the list.
 */
export function examplePolicy({ policies, selfPolicies }: Config): Policy | undefined {
  const ofOrigin = policies.filter((policy) => !selfPolicies.includes(policy));
  const charging = ofOrigin.filter(
    ({ key, onMissingKey }) =>
      (onMissingKey !== "skip" && onMissingKey !== "deny") || key.every(({ kind }) => !unavailableKeyParts.has(kind)),
  );
  const enforced = charging.filter(({ isDryRun }) => !isDryRun);
  return enforced[0] ?? charging[0] ?? ofOrigin[0] ?? policies[0];
}

/** A client of the local Worker. */
interface ExampleClient {
  readonly address: string;
  /** The value that the client sends in each header, cookie and query parameter that is a key part. */
  readonly value: string;
}

export interface ExampleRequest {
  readonly method: string;
  /** The path and the query. */
  readonly target: string;
  readonly fields: ReadonlyMap<string, string>;
}

/** A request of the client that the policy charges. */
function exampleRequest(
  policy: Policy,
  { address, value }: ExampleClient = { address: forwardedAddress, value: exampleValue },
): ExampleRequest {
  const { match, key, addresses } = policy;
  const fields = new Map<string, string>();
  if (match.host !== null) fields.set("Host", hostOf(policy));
  for (const [name, wanted] of match.headers ?? []) fields.set(name, wanted === true ? value : wanted);
  for (const part of key) {
    if (part.kind === "header" && !fields.has(part.name)) fields.set(part.name, value);
  }
  const cookies = key.flatMap((part) => (part.kind === "cookie" ? `${part.name}=${value}` : []));
  if (cookies.length > 0) fields.set("Cookie", cookies.join("; "));
  if (addresses.trustedProxies !== null) {
    const proxies = Array.from({ length: addresses.trustedProxies - 1 }, () => loopbackAddress);
    fields.set("X-Forwarded-For", [address, ...proxies].join(", "));
  }
  const query = key.flatMap((part) => (part.kind === "query" ? `${encodeURIComponent(part.name)}=${value}` : []));
  const target = `${pathOf(policy)}${query.length > 0 ? `?${query.join("&")}` : ""}`;
  return { method: methodOf(policy), target, fields };
}

/**
 * A `curl` command for a request that the policy charges.
 * @param url the URL of the Worker
 */
export function requestCommand(url: string, policy: Policy): string {
  const { method, target, fields } = exampleRequest(policy);
  return [
    "curl",
    method === "HEAD" ? "-I" : "-i",
    ...(method === "GET" || method === "HEAD" ? [] : ["-X", method]),
    ...[...fields].map(([name, value]) => `-H ${shellQuoted(`${name}: ${value}`)}`),
    /^[\w:/.-]+$/.test(url + target) ? url + target : shellQuoted(url + target),
  ].join(" ");
}

/** The key that the example request is charged to, one text for each key part. */
export const exampleKey = (policy: Policy): string[] =>
  policy.key.map((part) => {
    const { kind } = part;
    if (kind === "ip") return policy.addresses.trustedProxies === null ? loopbackAddress : forwardedAddress;
    if (kind === "path") return pathOf(policy);
    if (kind === "method") return methodOf(policy);
    if (kind === "host") return hostOf(policy);
    const wanted = kind === "header" ? policy.match.headers?.get(part.name) : undefined;
    return typeof wanted === "string" ? wanted : exampleValue;
  });

function methodOf({ match: { methods } }: Policy): string {
  if (methods === null || methods.has("GET")) return "GET";
  return [...methods].find((method) => method !== "TRACE" && method !== "CONNECT") ?? "GET";
}

const hostOf = ({ match: { host } }: Policy): string =>
  host === null ? "localhost" : host.hostname.replaceAll("*", exampleValue);

const pathOf = ({ match: { path } }: Policy): string =>
  (path?.pathname ?? "/hello")
    .replaceAll(/\/:[a-z_]\w*(?=\/|$)/gi, `/${exampleValue}`)
    .replaceAll("*", exampleValue)
    .replaceAll(/[^\x21-\x7e]+/g, (text) => encodeURIComponent(text));

const shellQuoted = (text: string): string =>
  /["$`\\!]/.test(text) ? `'${text.replaceAll("'", String.raw`'\''`)}'` : `"${text}"`;

interface DemoVisitor {
  /** A documentation address (RFC 5737, RFC 3849), which no real client has. */
  readonly address: string;
  /** The request at a tick; null for none. */
  readonly requestAt: (tick: number) => ExampleRequest | null;
}

const ticksPerSecond = 10;
const mostInFlight = 50;
const longestWaitMs = 5_000;

const ordinaryVisitors = 8;
const ordinaryPeriodTicks = 25;
/** Enough keys for the advisor to recommend a limit for its default goal, within a few minutes. */
const occasionalVisitors = 1_000;
const occasionalPeriodTicks = 2 * occasionalVisitors;
const greedyAddress = "198.51.100.23";
const greedyPeriodTicks = 2;
const attackerAddress = "2001:db8:bad::1";
const attackPeriodTicks = 100;
const attackTicks = 20;

/**
 * Ordinary visitors, who send 4 requests in 10 seconds; a greedy one, who sends 50; an attacker, who sends bursts of 20 to a
 * login; and occasional visitors, of whom each sends one request in 200 seconds. None of them obeys `Retry-After`.
 */
export function demoVisitors(config: Config): DemoVisitor[] {
  const { policies, selfPolicies } = config;
  const ofOrigin = policies.filter((policy) => !selfPolicies.includes(policy));
  const requestsOf = (address: string, number: number): ExampleRequest[] =>
    ofOrigin.map((policy) => exampleRequest(policy, { address, value: `visitor-${number}` }));
  const ordinary = Array.from({ length: ordinaryVisitors }, (_, index): DemoVisitor => {
    const number = index + 1;
    const address = number % 2 === 0 ? `2001:db8:${number}::1` : `203.0.113.${number}`;
    const requests = requestsOf(address, number);
    return {
      address,
      requestAt: (tick) => {
        const turn = (tick + index * 3) / ordinaryPeriodTicks;
        return Number.isInteger(turn) ? (requests[(turn + index) % requests.length] ?? null) : null;
      },
    };
  });
  const occasional = Array.from({ length: occasionalVisitors }, (_, index): DemoVisitor => {
    const number = 1_000 + index;
    const address = `2001:db8:${number}::1`;
    const requests = requestsOf(address, number);
    const firstTick = (occasionalPeriodTicks / occasionalVisitors) * index;
    return {
      address,
      requestAt: (tick) => {
        const turn = (tick - firstTick) / occasionalPeriodTicks;
        return Number.isInteger(turn) && turn >= 0 ? (requests[(turn + index) % requests.length] ?? null) : null;
      },
    };
  });
  const busiest = examplePolicy(config);
  if (busiest === undefined) return [];
  const greedy = exampleRequest(busiest, { address: greedyAddress, value: "greedy" });
  const attack = attackOf(ofOrigin, { address: attackerAddress, value: "attacker" });
  return [
    ...ordinary,
    ...occasional,
    { address: greedyAddress, requestAt: (tick) => (tick % greedyPeriodTicks === 0 ? greedy : null) },
    { address: attackerAddress, requestAt: (tick) => (tick % attackPeriodTicks < attackTicks ? attack : null) },
  ];
}

/** A request to the login that a policy limits, or to `/login`. */
function attackOf(policies: readonly Policy[], client: ExampleClient): ExampleRequest {
  const login = policies.find(({ match }) => /log-?in|auth|sign-?in|password|token/i.test(match.path?.pathname ?? ""));
  if (login !== undefined) return exampleRequest(login, client);
  const general = policies.find(({ match: { path } }) => path === null);
  const fields = general === undefined ? new Map<string, string>() : exampleRequest(general, client).fields;
  return { method: "POST", target: "/login", fields };
}

/** The reason why demo traffic must not be sent to the Worker of this setup; null without one. */
export function demoTrafficObstacle({ hasDemoOrigin, variables }: LocalSetup): string | null {
  if (!hasDemoOrigin) {
    return "ORIGIN is set, and demo traffic must not reach your origin. Remove ORIGIN to use the demo origin.";
  }
  return variables["ALERT_WEBHOOK"]
    ? "ALERT_WEBHOOK is set, and demo traffic must not cause alerts. Remove ALERT_WEBHOOK."
    : null;
}

export class DemoTraffic {
  readonly #url: string;
  readonly #inFlight = new Set<Promise<unknown>>();
  #stop = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #tick = 0;

  constructor(port: number) {
    this.#url = `http://localhost:${port}`;
  }

  /** Starts the traffic. Returns a line for the terminal that describes it. */
  start(setup: LocalSetup): string {
    const obstacle = demoTrafficObstacle(setup);
    if (obstacle !== null) return `Demo traffic is paused: ${obstacle}`;
    if (setup.config === null) return "Demo traffic is paused until the configuration is valid.";
    const visitors = demoVisitors(setup.config);
    this.#stop = new AbortController();
    this.#timer = setInterval(() => this.#send(visitors), 1_000 / ticksPerSecond);
    return (
      `Demo traffic: about 15 requests per second to ${targetsOf(visitors).join(", ")}, ` +
      `from ${ordinaryVisitors + occasionalVisitors} visitors, a greedy one (${greedyAddress}) and an attacker (${attackerAddress}).`
    );
  }

  /** Resolves when no request is under way, so that none can reach a Worker with another configuration. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.race([Promise.all(this.#inFlight), setTimeout(longestWaitMs)]);
    this.#stop.abort();
  }

  #send(visitors: readonly DemoVisitor[]): void {
    this.#tick += 1;
    for (const { address, requestAt } of visitors) {
      const next = requestAt(this.#tick);
      if (next === null || this.#inFlight.size >= mostInFlight) continue;
      const sent = this.#sendOne(next, address).finally(() => this.#inFlight.delete(sent));
      this.#inFlight.add(sent);
    }
  }

  async #sendOne({ method, target, fields }: ExampleRequest, address: string): Promise<void> {
    const sent = { method, fields: { "CF-Connecting-IP": address, ...Object.fromEntries(fields) } };
    try {
      await sendRequest(new URL(this.#url + target), sent, { signal: this.#stop.signal });
    } catch (error) {
      // A request fails while the Worker stops.
      if (!(error instanceof NoAnswer)) throw error;
    }
  }
}

/** The first few methods and paths that the visitors request. */
function targetsOf(visitors: readonly DemoVisitor[]): string[] {
  const ticks = Array.from({ length: attackPeriodTicks }, (_, tick) => tick);
  const sent = visitors.flatMap(({ requestAt }) => ticks.flatMap((tick) => requestAt(tick) ?? []));
  const distinct = [...new Set(sent.map(({ method, target }) => `${method} ${target.split("?")[0]}`))];
  return distinct.length > 5 ? [...distinct.slice(0, 5), "…"] : distinct;
}
