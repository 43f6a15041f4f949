/** Real Caddy and HAProxy, configured as the README shows, in front of an origin. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SignJWT } from "jose";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startWorkerd, type Workerd } from "../tools/workerd.ts";
import { freePort } from "./checkout.ts";
import type { Gateway, Upstreams } from "./gateway-process.ts";
import { hasCaddy, hasHaproxy, startCaddy, startHaproxy } from "./gateways.ts";
import { bodyOf, Client, Origin } from "./proxied.ts";

type Sent = Record<string, string>;

const token = "the-tests-token";
const jwtSecret = "a secret of the tests, thirty-two bytes or more";
/** The example of RFC 6455, section 1.3. */
const socketKey = "dGhlIHNhbXBsZSBub25jZQ==";
const socketAccept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
/** Each path below `/caddy`, `/haproxy` and `/writes` has its own quota, so that tests share none. */
const policies = [
  { name: "each", match: { path: "/:gateway/each/*" }, key: ["ip", "path"] },
  { name: "writes", match: { path: "/:gateway/writes/*", methods: ["POST"] }, key: ["ip", "path"] },
  { name: "queries", match: { path: "/:gateway/query" }, key: ["path", "query:user"] },
  { name: "users", match: { path: "/:gateway/users" }, key: ["path", "jwt:sub"] },
  { name: "blocked", match: { path: "/:gateway/blocked" }, deny: ["127.0.0.1"] },
  { name: "elsewhere", match: { host: "elsewhere.example" }, key: "global" },
].map((policy) => ({ strategy: "fixed-window", limits: "2/hour", ...policy }));

const folder = mkdtempSync(join(tmpdir(), "headgate-behind-gateways-"));
const origin = new Origin();
let workerd: Workerd;

/** The origin's answer: the request as it reached the origin. */
interface Received {
  readonly request: string;
  readonly bytes: number;
  readonly headers: Sent;
}

beforeAll(async () => {
  origin.answers.set("/", ({ request, response }) => {
    const { method, url, headers } = request;
    void bodyOf(request).then(({ length }) =>
      response.end(JSON.stringify({ request: `${method} ${url}`, bytes: length, headers })),
    );
  });
  for (const path of ["/caddy/own-fields", "/haproxy/own-fields"]) {
    origin.answers.set(path, ({ response }) =>
      response.setHeader("RateLimit", '"origin";r=5').end(),
    );
  }
  origin.server.on("upgrade", (_request, socket) => {
    const fields = `Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${socketAccept}`;
    socket.end(`HTTP/1.1 101 Switching Protocols\r\n${fields}\r\n\r\n`);
  });
  await origin.listen();
  workerd = await startWorkerd(folder, {
    CHECK_TOKENS: token,
    JWT_KEY: jwtSecret,
    POLICIES: JSON.stringify(policies),
  });
});

afterAll(async () => {
  await workerd.close();
  await origin.close();
  rmSync(folder, { recursive: true });
});

async function remaining(policy: string, ...key: string[]): Promise<number | undefined> {
  const look = new URL(`/check?policy=${policy}`, workerd.url);
  for (const part of key) look.searchParams.append("key", part);
  const response = await fetch(look, { headers: { Authorization: `Bearer ${token}` } });
  const { limits } = await response.json<{ limits: { remaining: number }[] }>();
  return limits[0]?.remaining;
}

async function bearer(sub: string): Promise<Sent> {
  const signing = new SignJWT({ sub }).setProtectedHeader({ alg: "HS256" });
  const signed = await signing.setExpirationTime("1m").sign(new TextEncoder().encode(jwtSecret));
  return { Authorization: `Bearer ${signed}` };
}

const rateLimitFields = (headers: Headers): (string | null)[] =>
  ["RateLimit", "RateLimit-Policy", "Retry-After"].map((name) => headers.get(name));

const gateways = [
  {
    name: "caddy",
    isInstalled: hasCaddy,
    start: startCaddy,
    statusWhenUnreachable: 502,
    statusOfWrongToken: 401,
  },
  {
    name: "haproxy",
    isInstalled: hasHaproxy,
    start: startHaproxy,
    statusWhenUnreachable: 500,
    statusOfWrongToken: 500,
  },
] as const;

for (const { name, isInstalled, start, ...failing } of gateways) {
  describe.skipIf(!isInstalled)(
    `${name}, asking Headgate (skipped where it is not installed)`,
    () => {
      let gateway: Gateway;
      const path = (rest: string): string => `/${name}/${rest}`;
      const send = (rest: string, headers: Sent = {}, init: RequestInit = {}): Promise<Response> =>
        fetch(gateway.url + path(rest), { headers, ...init });
      const statusOf = async (sending: Promise<Response>): Promise<number> => {
        const response = await sending;
        await response.text();
        return response.status;
      };
      const upstreams = (changed: Partial<Upstreams> = {}): Upstreams => ({
        headgate: workerd.url,
        origin: origin.url,
        token,
        ...changed,
      });
      const statusThrough = async (changed: Partial<Upstreams>, rest: string): Promise<number> => {
        const other = await start(upstreams(changed));
        try {
          return await statusOf(fetch(other.url + path(rest)));
        } finally {
          await other.close();
        }
      };

      beforeAll(async () => {
        gateway = await start(upstreams());
        return gateway.close;
      });

      it("an allowed request reaches the origin unchanged, and its client gets the RateLimit fields", async () => {
        const response = await send("each/a?b=%2F");
        expect(rateLimitFields(response.headers)).toEqual([
          '"each";r=1;t=3600',
          '"each";q=2;w=3600',
          null,
        ]);
        const { request, headers } = await response.json<Received>();
        expect([response.status, request]).toEqual([200, `GET ${path("each/a?b=%2F")}`]);
        expect(Object.keys(headers).filter((field) => field.startsWith("ratelimit"))).toEqual([]);
      });

      it("a denied request gets 429 with the fields and the problem, and never reaches the origin", async () => {
        const statuses = [];
        for (let count = 0; count < 2; count++) {
          // oxlint-disable-next-line no-await-in-loop
          statuses.push(await statusOf(send("each/denied")));
        }
        expect(statuses).toEqual([200, 200]);
        const denied = await send("each/denied");
        const [limit, policy, seconds] = rateLimitFields(denied.headers);
        expect([denied.status, limit, policy]).toEqual([
          429,
          `"each";r=0;t=${seconds}`,
          '"each";q=2;w=3600',
        ]);
        expect(Number(seconds)).toBeGreaterThan(3_500);
        expect(denied.headers.get("Content-Type")).toContain("application/problem+json");
        expect(denied.headers.get("Cache-Control")).toBe("no-store");
        expect(await denied.json()).toMatchObject({ status: 429, "violated-policies": ["each"] });
        expect(origin.timesAsked(path("each/denied"))).toBe(2);
      });

      it("a denied HEAD request gets the fields without a body", async () => {
        const heads = [];
        for (let count = 0; count < 3; count++) {
          // oxlint-disable-next-line no-await-in-loop
          const { status, headers } = await send("each/head", {}, { method: "HEAD" });
          heads.push([status, headers.has("Retry-After")]);
        }
        expect(heads).toEqual([
          [200, false],
          [200, false],
          [429, true],
        ]);
      });

      it("a request of a blocked address gets 403 without Retry-After", async () => {
        const response = await send("blocked");
        expect([response.status, response.headers.has("Retry-After")]).toEqual([403, false]);
        expect(await response.json()).toMatchObject({ status: 403 });
        expect(origin.timesAsked(path("blocked"))).toBe(0);
      });

      it("a request that matches no policy has no RateLimit field at the origin or the client", async () => {
        const response = await send("free");
        expect([response.status, ...rateLimitFields(response.headers)]).toEqual([
          200,
          null,
          null,
          null,
        ]);
        const { headers } = await response.json<Received>();
        expect(Object.keys(headers).filter((field) => field.startsWith("ratelimit"))).toEqual([]);
      });

      it.for(["free", "each/fields"])(
        "RateLimit fields that a client sends reach neither the origin nor the response: /%s",
        async (rest) => {
          const forged = { RateLimit: '"forged";r=9', "RateLimit-Policy": '"forged";q=9' };
          const response = await send(rest, forged);
          expect(rateLimitFields(response.headers).join()).not.toContain("forged");
          expect(await response.text()).not.toContain("forged");
        },
      );

      it("RateLimit fields of the origin reach the client", async () => {
        const response = await send("own-fields");
        expect(response.headers.get("RateLimit")).toBe('"origin";r=5');
      });

      it("of 20 requests at once, exactly the limit reaches the origin", async () => {
        const statuses = await Promise.all(
          Array.from({ length: 20 }, () => statusOf(send("each/at-once"))),
        );
        expect(statuses.filter((status) => status === 429)).toHaveLength(18);
        expect(origin.timesAsked(path("each/at-once"))).toBe(2);
      });

      it("a body reaches the origin whole, and Headgate decides by the request's method", async () => {
        const post = { method: "POST", body: "x".repeat(300_000) };
        const response = await send("writes/a", {}, post);
        expect(await response.json()).toMatchObject({
          request: `POST ${path("writes/a")}`,
          bytes: 300_000,
        });
        expect(await statusOf(send("writes/a", {}, post))).toBe(200);
        expect(await statusOf(send("writes/a", {}, post))).toBe(429);
        expect(await statusOf(send("writes/a"))).toBe(200);
      });

      it("Headgate reads the query as the client sent it, and takes no option from it", async () => {
        const query = "query?deny=403&cost=0&user=a%26b&policy=none";
        expect(await statusOf(send(query))).toBe(200);
        expect(await remaining("queries", path("query"), "a&b")).toBe(1);
        expect(await statusOf(send(query))).toBe(200);
        expect(await statusOf(send(query))).toBe(429);
        expect(await statusOf(send("query?user=b"))).toBe(200);
      });

      it.for([
        ["X-Forwarded-For", "192.0.2.9"],
        ["X-Forwarded-For", "192.0.2.9, 192.0.2.10"],
        ["CF-Connecting-IP", "192.0.2.9"],
        ["Forwarded", "for=192.0.2.9"],
        ["X-Original-URI", "/free"],
        ["X-Original-Method", "GET"],
        ["X-Forwarded-Uri", "/free"],
        ["X-Forwarded-Uri", "not a path"],
        ["X-Forwarded-Method", "GET"],
        ["X-Forwarded-Host", "elsewhere.example"],
        ["X-Forwarded-Proto", "wss"],
        ["X-Headgate-Token", "the client's"],
      ] as const)(
        "a client cannot describe itself as another visitor or request by %s: %s",
        async ([field, value]) => {
          const rest = `writes/${field}-${value.replaceAll(/\W+/g, "-")}`;
          expect(await statusOf(send(rest, { [field]: value }, { method: "POST" }))).toBe(200);
          expect(await remaining("writes", "127.0.0.1", path(rest))).toBe(1);
          expect(await remaining("elsewhere")).toBe(2);
        },
      );

      it("users have quotas of their own by their tokens, which reach the origin; the gateway's does not", async () => {
        const [ann, bob] = [await bearer("ann"), await bearer("bob")];
        const received = await (await send("users", ann)).json<Received>();
        expect(received.headers["authorization"]).toBe(ann["Authorization"]);
        expect(JSON.stringify(received)).not.toContain(token);
        expect(await statusOf(send("users", ann))).toBe(200);
        expect(await statusOf(send("users", ann))).toBe(429);
        expect(await statusOf(send("users", bob))).toBe(200);
      });

      it("a WebSocket upgrade is charged, and denied beyond the limit", async () => {
        const upgrade = (): Promise<number> => {
          const headers = {
            Connection: "Upgrade",
            Upgrade: "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": socketKey,
          };
          return new Client(gateway.url + path("each/socket"), { headers }).upgraded();
        };
        expect([await upgrade(), await upgrade(), await upgrade()]).toEqual([101, 101, 429]);
      });

      it("while Headgate is stopped, no request reaches the origin", async () => {
        const headgate = new URL(`http://127.0.0.1:${await freePort()}`);
        expect(await statusThrough({ headgate }, "each/stopped")).toBe(
          failing.statusWhenUnreachable,
        );
        expect(origin.timesAsked(path("each/stopped"))).toBe(0);
      });

      it("with a wrong token, no request reaches the origin", async () => {
        const status = await statusThrough({ token: "wrong" }, "each/wrong-token");
        expect(status).toBe(failing.statusOfWrongToken);
        expect(origin.timesAsked(path("each/wrong-token"))).toBe(0);
      });
    },
  );
}
