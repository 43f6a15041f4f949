/**
 * Mixed load on workerd itself, where calls, timers and promises belong to the request that created them. workerd warns
 * when a request settles a promise of a request that has ended, and rejects the I/O of another request.
 */
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { Agent, request as requestOf } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { expect, it } from "vitest";
import { type Random, randomFrom } from "../random.ts";
import { startWorkerd, type Workerd } from "../tools/workerd.ts";

const checkToken = "the-token-of-the-mixed-load";
const adminToken = "the-admin-token-of-the-mixed-load";
const loadMs = 8_000;

const many = "1000000/hour";
const user = "header:x-user";
const policies = [
  { name: "strict", match: { path: "/strict/*" }, limits: many },
  { name: "leased", match: { path: "/leased/*" }, limits: many, consistency: "leased" },
  { name: "eventual", match: { path: "/eventual/*" }, limits: many, consistency: "eventual" },
  { name: "lending", match: { path: "/pair/*" }, limits: many, consistency: "leased" },
  // Denies most requests that the policy "lending" has allowed, so that their charges are refunded to a slice.
  { name: "denying", match: { path: "/pair/*" }, key: [user, "method"], limits: "5/s" },
  {
    name: "slots",
    match: { path: "/slots/*" },
    limits: [{ limit: 1_000, window: "1h", strategy: "concurrency" }],
  },
  { name: "claims", match: { path: "/claims/*" }, key: "jwt:sub", limits: many },
  { name: "reserved", match: { path: "/none" }, limits: many },
].map((policy) => ({ key: user, timeout: "5s", denyCache: false, ...policy }));

/** Objects that reply after a few milliseconds, and not always in the order of the calls. */
const entry = `
  import { RateLimiter as Own } from "./index.js";
  export * from "./index.js";
  export { default } from "./index.js";

  const travel = () => new Promise((resolve) => setTimeout(resolve, Math.random() < 0.1 ? 40 : 2));

  export class RateLimiter extends Own {
    async decide(texts, checks) {
      const replies = super.decide(texts, checks);
      await travel();
      return replies;
    }
    async lease(call) {
      const reply = super.lease(call);
      await travel();
      return reply;
    }
    async giveBackSlices(call) {
      const reply = super.giveBackSlices(call);
      await travel();
      return reply;
    }
  }
`;

/** A Worker that makes several calls of the service at once, and may end before their replies. */
const other = `
  export default {
    async fetch(request, { HEADGATE }) {
      const { policy, isLeaving } = await request.json();
      const calls = Array.from({ length: 20 }, (_, index) =>
        HEADGATE.check({ policy, key: "visitor-" + (index % 2) }).catch(() => null),
      );
      await (isLeaving ? new Promise((resolve) => setTimeout(resolve, 2)) : Promise.all(calls));
      return new Response();
    },
  };
`;

const originWith = (keySet: unknown): string => `
  export default {
    fetch: (request) =>
      new URL(request.url).pathname === "/keys"
        ? Response.json(${JSON.stringify(keySet)})
        : new Response("response"),
  };
`;

interface Site {
  readonly workerd: Workerd;
  readonly token: string;
  readonly agent: Agent;
}

interface Sent {
  readonly path: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

async function answerOf({ workerd, agent }: Site, sent: Sent): Promise<[number, string]> {
  const { path, headers, body, method = body === undefined ? "GET" : "POST" } = sent;
  const request = requestOf(new URL(path, workerd.url).href, {
    agent,
    method,
    headers: { ...headers, ...(body !== undefined && { "Content-Type": "application/json" }) },
  });
  request.end(body === undefined ? undefined : JSON.stringify(body));
  const [response] = (await once(request, "response")) as [AsyncIterable<Buffer> & { statusCode: number }];
  let text = "";
  for await (const chunk of response) text += chunk.toString();
  return [response.statusCode, text];
}

/** Sends a request on its own connection, and resets the connection within 8 ms. */
async function disconnect({ workerd }: Site, { path, headers }: Sent, random: Random): Promise<void> {
  const request = requestOf(new URL(path, workerd.url).href, {
    agent: false,
    headers: { ...headers },
  });
  request.on("error", () => undefined).end();
  const [socket] = await once(request, "socket");
  if (socket.connecting) await once(socket, "connect");
  await setTimeout(8 * random());
  socket.resetAndDestroy();
}

const paths = ["strict", "leased", "eventual", "pair", "slots", "claims"] as const;

const proxied = ({ token }: Site, random: Random): Sent => ({
  path: `/${paths[Math.floor(random() * paths.length)]}/page`,
  headers: { "X-User": `visitor-${Math.floor(random() * 3)}`, Authorization: `Bearer ${token}` },
});

const authorized = (sent: Sent): Sent => ({
  ...sent,
  headers: { Authorization: `Bearer ${checkToken}` },
});

/** One step of each kind of client. Returns the statuses of its responses. */
const steps: readonly ((site: Site, random: Random) => Promise<readonly number[]>)[] = [
  ...Array.from({ length: 6 }, () => async (site: Site, random: Random) => {
    const [status] = await answerOf(site, proxied(site, random));
    return [status];
  }),
  ...Array.from({ length: 2 }, () => async (site: Site, random: Random) => {
    await disconnect(site, proxied(site, random), random);
    return [];
  }),
  async (site, random) => {
    const check = { key: `visitor-${Math.floor(random() * 3)}` };
    const body = { policy: "reserved", ttlMs: 5_000, ...check };
    const [reserved, text] = await answerOf(site, authorized({ path: "/check/reserve", body }));
    const { reservation } = JSON.parse(text) as { reservation?: string };
    if (random() < 0.3 || reservation === undefined) return [reserved];
    const settled = { reservation, cost: 0 };
    const [status] = await answerOf(site, authorized({ path: "/check/settle", body: settled }));
    return [reserved, status];
  },
  async ({ workerd }, random) => {
    const policy = random() < 0.5 ? "strict" : "leased";
    const body = JSON.stringify({ policy, isLeaving: random() < 0.5 });
    const { status } = await fetch(workerd.otherUrl, { method: "POST", body });
    await setTimeout(50);
    return [status];
  },
  async (site) => {
    const headers = { Authorization: `Bearer ${adminToken}` };
    const [status] = await answerOf(site, { path: "/_headgate/api/stats", headers });
    await setTimeout(200);
    return [status];
  },
];

it("under mixed load, no request settles a promise of a request that has ended, and none uses the I/O of another request", async () => {
  const folder = mkdtempSync(join(tmpdir(), "headgate-contexts-"));
  const { privateKey, publicKey } = await generateKeyPair("ES256", { extractable: true });
  const keySet = { keys: [{ ...(await exportJWK(publicKey)), alg: "ES256", kid: "one" }] };
  const token = await new SignJWT({ sub: "somebody" })
    .setProtectedHeader({ alg: "ES256", kid: "one" })
    .setExpirationTime("1h")
    .sign(privateKey);
  let printed = "";
  const workerd = await startWorkerd(
    folder,
    {
      POLICIES: policies,
      CHECK_TOKENS: checkToken,
      ADMIN_TOKENS: adminToken,
      JWT_JWKS_URL: "https://keys.example/keys",
    },
    {
      entry,
      other,
      origin: originWith(keySet),
      hasControlPlane: true,
      print: (text) => void (printed += text),
    },
  );
  const site = { workerd, token, agent: new Agent({ keepAlive: true }) };
  try {
    const statuses = new Map<number, number>();
    const endsAtMs = performance.now() + loadMs;
    const clients = steps.map(async (step, index) => {
      const random = randomFrom(index);
      while (performance.now() < endsAtMs) {
        // oxlint-disable-next-line no-await-in-loop
        for (const status of await step(site, random)) {
          statuses.set(status, (statuses.get(status) ?? 0) + 1);
        }
      }
    });
    await Promise.all(clients);
    expect(printed).not.toMatch(/request context|different request|since ended|had hung|never complete/);
    expect(printed).not.toContain("object-silent");
    expect(new Set(statuses.keys())).toEqual(new Set([200, 429]));
    expect(statuses.get(200)).toBeGreaterThan(100);
  } finally {
    site.agent.destroy();
    await workerd.close();
    rmSync(folder, { recursive: true });
  }
}, 60_000);
