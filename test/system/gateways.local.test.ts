/** Real nginx, Caddy and HAProxy, configured as docs/how-to shows, in front of an origin. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  bearer,
  type BehindGateway,
  rateLimitFields,
  type ReceivedRequest,
  startBehindGateway,
  statusOf,
} from "./behind-gateway.ts";
import { freePort } from "./checkout.ts";
import { caddy, type GatewayProcess, haproxy, nginx, type Upstreams } from "./gateway-process.ts";
import { Client, Origin } from "./proxied.ts";

/** The example of RFC 6455, section 1.3. */
const socketKey = "dGhlIHNhbXBsZSBub25jZQ==";
const socketAccept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
/** Each path has its own quota, so that tests do not share quotas. */
const policies = [
  { name: "each", match: { path: "/:gateway/each/*" }, key: ["ip", "path"] },
  { name: "writes", match: { path: "/:gateway/writes/*", methods: ["POST"] }, key: ["ip", "path"] },
  { name: "queries", match: { path: "/:gateway/query" }, key: ["path", "query:user"] },
  {
    name: "users",
    match: { path: "/:gateway/users" },
    key: ["path", "jwt:sub"],
    onMissingKey: "deny",
  },
  // Only Caddy forwards the whole X-Forwarded-For field.
  {
    name: "balanced",
    match: { path: "/caddy/balanced" },
    key: ["ip", "path"],
    trustedProxies: 2,
  },
  { name: "blocked", match: { path: "/:gateway/blocked" }, deny: ["127.0.0.1"] },
  { name: "elsewhere", match: { host: "elsewhere.example" }, key: "global" },
];

const gateways = [
  {
    name: "nginx",
    program: nginx,
    pathBehindLoadBalancer: "each/balanced",
    statusWhenUnreachable: 500,
    statusOfWrongToken: 500,
    // nginx answers with its own error page.
    deniedBody: /429 Too Many Requests/,
    // The documented configuration of nginx contains neither.
    forwardsUpgrades: false,
    removesClientFields: false,
  },
  {
    name: "caddy",
    program: caddy,
    pathBehindLoadBalancer: "balanced",
    statusWhenUnreachable: 502,
    statusOfWrongToken: 401,
    deniedBody: /"violated-policies":\["each"\]/,
    forwardsUpgrades: true,
    removesClientFields: true,
  },
  {
    name: "haproxy",
    program: haproxy,
    pathBehindLoadBalancer: "each/balanced",
    statusWhenUnreachable: 500,
    statusOfWrongToken: 500,
    deniedBody: /"violated-policies":\["each"\]/,
    forwardsUpgrades: true,
    removesClientFields: true,
  },
] as const;

let behind: BehindGateway;
let origin: Origin;

beforeAll(async () => {
  if (gateways.every(({ program }) => !program.isInstalled)) return;
  behind = await startBehindGateway(policies);
  origin = behind.origin;
  for (const { name } of gateways) {
    origin.answers.set(`/${name}/own-fields`, ({ response }) => response.setHeader("RateLimit", '"origin";r=5').end());
    origin.answers.set(`/${name}/each/forbidden`, ({ response }) =>
      response.writeHead(403, { "X-From": "the origin" }).end("forbidden by the origin"),
    );
  }
  origin.server.on("upgrade", (_request, socket) => {
    const fields = `Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${socketAccept}`;
    socket.end(`HTTP/1.1 101 Switching Protocols\r\n${fields}\r\n\r\n`);
  });
});

afterAll(async () => {
  await behind?.close();
});

/** Starts a second gateway process with these changes, and returns its response to one request. */
async function responseThrough(program: typeof nginx, changed: Partial<Upstreams>, path: string): Promise<Response> {
  const gateway = await program.start({ ...behind.upstreams, ...changed });
  try {
    const response = await fetch(gateway.url + path);
    await response.text();
    return response;
  } finally {
    await gateway.close();
  }
}

const unreachable = async (): Promise<Partial<Upstreams>> => ({
  headgate: new URL(`http://127.0.0.1:${await freePort()}`),
});

for (const { name, program, ...expected } of gateways) {
  describe.skipIf(!program.isInstalled)(`${name}, skipped unless it is installed`, () => {
    let gateway: GatewayProcess;
    const path = (rest: string): string => `/${name}/${rest}`;
    const send = (rest: string, headers: Record<string, string> = {}, init: RequestInit = {}): Promise<Response> =>
      fetch(gateway.url + path(rest), { headers, ...init });

    beforeAll(async () => {
      gateway = await program.start(behind.upstreams);
      return gateway.close;
    });

    it("through a gateway, an allowed request reaches the origin unchanged, and its client gets the RateLimit fields", async () => {
      const response = await send("each/a?b=%2F");
      expect(rateLimitFields(response.headers)).toEqual(['"each";r=1;t=3600', '"each";q=2;w=3600', null]);
      const { request, headers } = await response.json<ReceivedRequest>();
      expect([response.status, request]).toEqual([200, `GET ${path("each/a?b=%2F")}`]);
      expect(Object.keys(headers).filter((field) => field.startsWith("ratelimit"))).toEqual([]);
    });

    it("through a gateway, a denied request gets 429 with the RateLimit fields and a body, and never reaches the origin", async () => {
      const statuses = [];
      for (let count = 0; count < 2; count++) {
        // oxlint-disable-next-line no-await-in-loop
        statuses.push(await statusOf(send("each/denied")));
      }
      expect(statuses).toEqual([200, 200]);
      const denied = await send("each/denied");
      const [limit, policy, seconds] = rateLimitFields(denied.headers);
      expect([denied.status, limit, policy]).toEqual([429, `"each";r=0;t=${seconds}`, '"each";q=2;w=3600']);
      expect(Number(seconds)).toBeGreaterThan(3_500);
      expect(denied.headers.get("Cache-Control")).toBe("no-store");
      expect(await denied.text()).toMatch(expected.deniedBody);
      expect(origin.requestCount(path("each/denied"))).toBe(2);
    });

    it("through a gateway, a denied HEAD request gets the RateLimit fields without a body", async () => {
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

    it("through a gateway, a request of a blocked address gets 403 without Retry-After", async () => {
      const response = await send("blocked");
      expect([response.status, response.headers.has("Retry-After")]).toEqual([403, false]);
      expect(origin.requestCount(path("blocked"))).toBe(0);
    });

    it("a request that matches no policy passes the gateway without RateLimit fields, and so does its response", async () => {
      const response = await send("free");
      expect([response.status, ...rateLimitFields(response.headers)]).toEqual([200, null, null, null]);
      const { headers } = await response.json<ReceivedRequest>();
      expect(Object.keys(headers).filter((field) => field.startsWith("ratelimit"))).toEqual([]);
    });

    it.for(["free", "each/fields"])(
      "RateLimit fields that a client sends never reach the response and, if the gateway removes them, never reach the origin: /%s",
      async (rest) => {
        const forged = { RateLimit: '"forged";r=9', "RateLimit-Policy": '"forged";q=9' };
        const response = await send(rest, forged);
        expect(rateLimitFields(response.headers).join()).not.toContain("forged");
        const body = await response.text();
        expect(expected.removesClientFields && body.includes("forged")).toBe(false);
      },
    );

    it("RateLimit fields of the origin pass the gateway to the client", async () => {
      const response = await send("own-fields");
      expect(response.headers.get("RateLimit")).toBe('"origin";r=5');
    });

    it("a 403 of the origin passes the gateway unchanged", async () => {
      const response = await send("each/forbidden");
      expect([response.status, await response.text()]).toEqual([403, "forbidden by the origin"]);
      expect(response.headers.get("X-From")).toBe("the origin");
      expect(response.headers.get("RateLimit")).toBe('"each";r=1;t=3600');
    });

    it("a limit of 20 concurrent requests lets exactly 20 requests pass the gateway to the origin", async () => {
      const statuses = await Promise.all(Array.from({ length: 20 }, () => statusOf(send("each/at-once"))));
      expect(statuses.filter((status) => status === 429)).toHaveLength(18);
      expect(origin.requestCount(path("each/at-once"))).toBe(2);
    });

    it("a request body passes the gateway unchanged, and policies match the request's method", async () => {
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

    it("key parts from the query are read as the client sent them, and the query sets no option of /check/forward", async () => {
      const query = "query?deny=403&cost=0&user=a%26b&policy=none";
      expect(await statusOf(send(query))).toBe(200);
      expect(await behind.remaining("queries", path("query"), "a&b")).toBe(1);
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
      "a client cannot change the address or request that Headgate sees by sending %s: %s",
      async ([field, value]) => {
        const rest = `writes/${field}-${value.replaceAll(/\W+/g, "-")}`;
        expect(await statusOf(send(rest, { [field]: value }, { method: "POST" }))).toBe(200);
        expect(await behind.remaining("writes", "127.0.0.1", path(rest))).toBe(1);
        expect(await behind.remaining("elsewhere")).toBe(2);
      },
    );

    it("an encoded line break in the path adds no field to the description of the request", async () => {
      const rest = "each/line%0d%0aX-Forwarded-For:%20192.0.2.9";
      expect(await statusOf(send(rest))).toBe(200);
      expect(await behind.remaining("each", "192.0.2.9", path("each/line"))).toBe(2);
      expect([await statusOf(send(rest)), await statusOf(send(rest))]).toEqual([200, 429]);
    });

    it("each user has a quota by their own bearer token, which reaches the origin, and the gateway's token does not", async () => {
      const [ann, bob] = [await bearer("ann"), await bearer("bob")];
      const received = await (await send("users", ann)).json<ReceivedRequest>();
      expect(received.headers["authorization"]).toBe(ann["Authorization"]);
      expect(JSON.stringify(received)).not.toContain(behind.upstreams.token);
      expect(await statusOf(send("users", ann))).toBe(200);
      expect(await statusOf(send("users", ann))).toBe(429);
      expect(await statusOf(send("users", bob))).toBe(200);
      expect(await behind.remaining("users", path("users"), "bob")).toBe(1);
    });

    it("a forged and a missing bearer token are denied when the key needs a verified claim", async () => {
      const forged = await bearer("bob", "another secret, of thirty-two bytes or more");
      expect(await statusOf(send("users", forged))).toBe(403);
      expect(await statusOf(send("users"))).toBe(403);
    });

    it.runIf(expected.forwardsUpgrades)("a WebSocket upgrade is charged, and denied beyond the limit", async () => {
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

    it("behind a load balancer, the visitor's address is charged, not an address that the client invented", async () => {
      const balanced = await program.start({ ...behind.upstreams, isBehindLoadBalancer: true });
      const ask = (visitor: string): Promise<number> => {
        const gatewayAddress = { "CF-Connecting-IP": "127.0.0.1" };
        const headers = { "X-Forwarded-For": `192.0.2.9, ${visitor}`, ...gatewayAddress };
        return statusOf(fetch(balanced.url + path(expected.pathBehindLoadBalancer), { headers }));
      };
      try {
        expect([await ask("203.0.113.7"), await ask("203.0.113.7")]).toEqual([200, 200]);
        expect([await ask("203.0.113.7"), await ask("203.0.113.8")]).toEqual([429, 200]);
      } finally {
        await balanced.close();
      }
    });

    it("the gateway sends no request to the origin while Headgate is stopped", async () => {
      const response = await responseThrough(program, await unreachable(), path("each/stopped"));
      expect(response.status).toBe(expected.statusWhenUnreachable);
      expect(origin.requestCount(path("each/stopped"))).toBe(0);
    });

    it("the gateway sends no request to the origin while the gateway's token is wrong", async () => {
      const rest = path("each/wrong-token");
      const response = await responseThrough(program, { token: "wrong" }, rest);
      expect(response.status).toBe(expected.statusOfWrongToken);
      expect(origin.requestCount(rest)).toBe(0);
    });
  });
}

describe.skipIf(!nginx.isInstalled)("nginx without a decision, skipped unless installed", () => {
  const failOpen = (text: string): string => text.replace("return 500;", "return 204;");

  it.for([
    ["Headgate is stopped", unreachable],
    ["its token is wrong", async () => ({ token: "wrong" })],
  ] as const)("nginx fails closed or, when so configured, open while %s", async ([name, change]) => {
    const path = `/nginx/each/${name.replaceAll(" ", "-")}`;
    const closed = await responseThrough(nginx, await change(), path);
    expect(closed.status).toBe(500);
    // The response must not reveal to clients that the gateway has a token.
    expect(closed.headers.has("WWW-Authenticate")).toBe(false);
    expect(origin.requestCount(path)).toBe(0);
    const open = await responseThrough(nginx, { ...(await change()), edit: failOpen }, path);
    expect(open.status).toBe(200);
    expect(origin.requestCount(path)).toBe(1);
  });

  it.for([422, 500, 503])(
    "nginx fails closed, even when configured to fail open, if Headgate answers %s",
    async (status) => {
      const failing = new Origin();
      await failing.listen();
      failing.answers.set("/", ({ response }) => response.writeHead(status).end());
      try {
        const path = `/nginx/each/answered-${status}`;
        const changed = { headgate: new URL(failing.url), edit: failOpen };
        const response = await responseThrough(nginx, changed, path);
        expect(response.status).toBe(500);
        expect(failing.requestCount("/check/forward?deny=403")).toBe(1);
        expect(origin.requestCount(path)).toBe(0);
      } finally {
        await failing.close();
      }
    },
  );
});

describe.skipIf(!haproxy.isInstalled)("HAProxy without a decision, skipped unless installed", () => {
  it.for([
    ["Headgate is stopped", unreachable],
    ["its token is wrong", async () => ({ token: "wrong" })],
  ] as const)("HAProxy fails open, when so configured, while %s", async ([name, change]) => {
    const path = `/haproxy/each/open-while-${name.replaceAll(" ", "-")}`;
    const edit = (lua: string): string => lua.replace("txn:done(txn:reply({ status = 500 }))", "return");
    const response = await responseThrough(haproxy, { ...(await change()), edit }, path);
    expect(response.status).toBe(200);
    expect(origin.requestCount(path)).toBe(1);
  });
});
