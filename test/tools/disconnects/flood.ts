/** Floods of clients that disconnect during their requests, while other clients wait for each response. */
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { Agent, type IncomingMessage, request as requestOf } from "node:http";
import { join, resolve } from "node:path";
import { setTimeout } from "node:timers/promises";
import { type Random, randomFrom } from "../../random.ts";
import type { Counts } from "./counts.ts";
import { bundle } from "../workerd-process.ts";
import { startWorkerd, type Workerd } from "../workerd.ts";

export const tenantLimit = 100_000;
export const slots = 1_000;
/** Fewer units than the requests cost, so that users' policies deny requests that the tenant's policy has allowed. */
const userLimit = 10;
const users = 100;

const token = "the-floods-token";

const logOf = (limit: number): object => ({ limit, window: "1d", strategy: "sliding-log" });

/**
 * A long timeout, because a busy machine may be slow. A request without a decision of an object is answered with 503.
 */
const common = { onError: "closed", timeout: "30s", denyCache: false };

const policies = [
  { name: "tenant", key: "header:X-Tenant", limits: [logOf(tenantLimit)] },
  {
    name: "slots",
    match: { path: "/flood/slots" },
    key: "header:X-Slots",
    limits: [{ limit: slots, window: "1h", strategy: "concurrency" }],
  },
  {
    name: "user",
    match: { path: "/flood/*" },
    key: "header:X-User",
    limits: [logOf(userLimit)],
    objects: "sharded",
    shards: 2,
  },
].map((policy) => ({ ...policy, ...common }));

/** Starts the Worker in the caller's folder. */
export function startFlooded(folder: string, print?: (text: string) => void): Promise<Workerd> {
  const bundledIn = join(folder, "bundled");
  mkdirSync(bundledIn, { recursive: true });
  const configuration = join(folder, "flooded.json");
  const main = resolve(import.meta.dirname, "index.ts");
  writeFileSync(configuration, JSON.stringify({ name: "flooded", main, compatibility_date: "2026-11-01" }));
  bundle(bundledIn, configuration);
  const variables = { POLICIES: JSON.stringify(policies), CHECK_TOKENS: token };
  return startWorkerd(folder, variables, { bundledIn, ...(print !== undefined && { print }) });
}

export type Calls = "joined" | "separate";

export interface Flood {
  readonly calls: Calls;
  /** Floods with different names have different keys. */
  readonly name: string;
  readonly disconnects: number;
  readonly seed: number;
}

export interface FloodResult {
  /** The statuses of the responses to clients that do not disconnect. */
  readonly statuses: readonly number[];
  /** How long each of these clients waited, in milliseconds. */
  readonly waitsMs: readonly number[];
  /** How many of the other clients disconnected without a response. */
  readonly unanswered: number;
}

const leavers = 4;
const stayers = 8;
/** About the duration of a request. */
const mostPatienceMs = 16;

export async function flood(workerd: Workerd, settings: Flood): Promise<FloodResult> {
  const random = randomFrom(settings.seed);
  const clients = { left: settings.disconnects, unanswered: 0 };
  const statuses: number[] = [];
  const waitsMs: number[] = [];
  const leave = async (): Promise<void> => {
    while (clients.left > 0) {
      clients.left--;
      // oxlint-disable-next-line no-await-in-loop
      if (!(await disconnect(workerd, requestFor(settings, random), random))) clients.unanswered++;
    }
  };
  const agent = new Agent({ keepAlive: true, maxSockets: stayers });
  const stay = async (): Promise<void> => {
    while (clients.left > 0) {
      const startedAtMs = performance.now();
      // oxlint-disable-next-line no-await-in-loop
      statuses.push(await statusOf(workerd, requestFor(settings, random), agent));
      waitsMs.push(performance.now() - startedAtMs);
    }
  };
  await Promise.all([...Array.from({ length: leavers }, leave), ...Array.from({ length: stayers }, stay)]);
  agent.destroy();
  return { statuses, waitsMs, unanswered: clients.unanswered };
}

export interface FloodRequest {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
}

const userKey = (name: string, user: number): string => `${name}-user-${user}`;

const requestFor = ({ calls, name }: Flood, random: Random): FloodRequest => ({
  path: random() < 0.2 ? "/flood/slots" : "/flood/plain",
  headers: {
    "X-Calls": calls,
    "X-Tenant": name,
    "X-Slots": name,
    "X-User": userKey(name, Math.floor(random() * users)),
  },
});

/** Sends a request on its own connection, and disconnects soon. Returns whether the response had begun. */
async function disconnect({ url }: Workerd, { path, headers }: FloodRequest, random: Random): Promise<boolean> {
  const request = requestOf(new URL(path, url).href, { agent: false, headers });
  let isAnswered = false;
  request.on("response", () => (isAnswered = true));
  request.on("error", () => undefined);
  request.end();
  const [socket] = await once(request, "socket");
  if (socket.connecting) await once(socket, "connect");
  await setTimeout(mostPatienceMs * random());
  socket[random() < 0.5 ? "destroy" : "resetAndDestroy"]();
  return isAnswered;
}

export async function statusOf({ url }: Workerd, { path, headers }: FloodRequest, agent: Agent): Promise<number> {
  const request = requestOf(new URL(path, url).href, { agent, headers }).end();
  const [response] = (await once(request, "response")) as [IncomingMessage];
  response.resume();
  await once(response, "end");
  return response.statusCode ?? 0;
}

/** The counts of the Worker since `resetCounts`. */
export async function countsOf({ url }: Workerd): Promise<Counts> {
  const response = await fetch(new URL("/counts", url));
  return response.json<Counts>();
}

export async function resetCounts({ url }: Workerd): Promise<void> {
  await fetch(new URL("/counts", url), { method: "DELETE" });
}

/** The remaining units of a key, as reported by the object of this key. */
export async function remainingOf({ url }: Workerd, policy: string, key: string): Promise<number> {
  const look = new URL(`/check?policy=${policy}&key=${key}`, url);
  const response = await fetch(look, { headers: { Authorization: `Bearer ${token}` } });
  const { limits } = await response.json<{ limits: { remaining: number }[] }>();
  return limits[0]?.remaining ?? Number.NaN;
}

/** The units that all users of a flood have spent. */
export async function spentByUsers(workerd: Workerd, name: string): Promise<number> {
  const remaining = await Promise.all(
    Array.from({ length: users }, (_, user) => remainingOf(workerd, "user", userKey(name, user))),
  );
  return remaining.reduce((spent, each) => spent + userLimit - each, 0);
}
