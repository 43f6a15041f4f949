/** Real nginx, as the README configures it, in front of an origin: it lets in whom Headgate lets in. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SignJWT } from "jose";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startWorkerd, type Workerd } from "../tools/workerd.ts";
import { freePort } from "./checkout.ts";
import { type Behind, hasNginx, type Nginx, startNginx } from "./nginx.ts";
import { bodyOf, Origin } from "./proxied.ts";

type Sent = Record<string, string>;

const token = "the-tests-token";
const secret = "a secret of the tests, thirty-two bytes or more";
/** Every path below `/each` has a count of its own, and so has every test. */
const policies = [
  { name: "each", match: { path: "/each/*" }, key: ["ip", "path"] },
  { name: "writes", match: { path: "/writes/*", methods: ["POST"] }, key: ["ip", "path"] },
  { name: "users", match: { path: "/users" }, key: "jwt:sub", onMissingKey: "deny" },
  { name: "barred", match: { path: "/barred" }, deny: ["127.0.0.1"] },
  { name: "elsewhere", match: { host: "elsewhere.example" }, key: "global" },
].map((policy) => ({ strategy: "fixed-window", limits: "2/hour", ...policy }));

const folder = mkdtempSync(join(tmpdir(), "headgate-behind-nginx-"));
const origin = new Origin();
let workerd: Workerd;
let nginx: Nginx;

const started = (other: Partial<Behind> = {}): Promise<Nginx> =>
  startNginx({ headgate: workerd.url, origin: origin.url, token, ...other });

afterAll(() => rmSync(folder, { recursive: true }));

/** Tells what it was asked. */
interface Told {
  readonly asked: string;
  readonly bytes: number;
  readonly headers: Sent;
}

function tellWhatWasAsked(): void {
  origin.answers.set("/", ({ request, response }) => {
    const { method, url, headers } = request;
    void bodyOf(request).then(({ length }) =>
      response.end(JSON.stringify({ asked: `${method} ${url}`, bytes: length, headers })),
    );
  });
  origin.answers.set("/each/refused", ({ response }) => {
    response.writeHead(403, { "X-From": "the origin" }).end("not for you");
  });
}

const send = (path: string, headers: Sent = {}, init: RequestInit = {}): Promise<Response> =>
  fetch(nginx.url + path, { headers, ...init });

async function statusOf(sending: Promise<Response>): Promise<number> {
  const response = await sending;
  await response.text();
  return response.status;
}

/** What one request is answered by another nginx. */
async function through(behind: Partial<Behind>, path: string): Promise<Response> {
  const other = await started(behind);
  try {
    const response = await fetch(other.url + path);
    await response.text();
    return response;
  } finally {
    await other.close();
  }
}

/** What is left for a policy and a key. */
async function left(policy: string, ...key: string[]): Promise<number | undefined> {
  const look = new URL(`/check?policy=${policy}`, workerd.url);
  for (const part of key) look.searchParams.append("key", part);
  const response = await fetch(look, { headers: { Authorization: `Bearer ${token}` } });
  const { limits } = await response.json<{ limits: { remaining: number }[] }>();
  return limits[0]?.remaining;
}

async function bearer(sub: string, signedWith = secret): Promise<Sent> {
  const signing = new SignJWT({ sub }).setProtectedHeader({ alg: "HS256" });
  const key = new TextEncoder().encode(signedWith);
  return { Authorization: `Bearer ${await signing.setExpirationTime("1m").sign(key)}` };
}

describe.skipIf(!hasNginx)(
  "nginx before an origin (skipped where none with auth_request is installed)",
  () => {
    beforeAll(async () => {
      tellWhatWasAsked();
      await origin.listen();
      workerd = await startWorkerd(folder, {
        CHECK_TOKENS: token,
        JWT_KEY: secret,
        POLICIES: JSON.stringify(policies),
      });
      nginx = await started();
      return async () => {
        await nginx.close();
        await workerd.close();
        await origin.close();
      };
    });

    it("hands on what is let in, and tells the client what is left", async () => {
      const response = await send("/each/a?b=%2F");
      expect(response.status).toBe(200);
      expect(await response.json()).toMatchObject({ asked: "GET /each/a?b=%2F" });
      expect(response.headers.get("RateLimit-Policy")).toBe('"each";q=2;w=3600');
      expect(response.headers.get("RateLimit")).toBe('"each";r=1;t=3600');
      expect(response.headers.has("Retry-After")).toBe(false);
    });

    it("leaves a refusal of the origin as it is", async () => {
      const response = await send("/each/refused");
      expect([response.status, await response.text()]).toEqual([403, "not for you"]);
      expect(response.headers.get("X-From")).toBe("the origin");
      expect(response.headers.get("RateLimit")).toBe('"each";r=1;t=3600');
    });

    it("answers what is beyond the limit itself, with when to come back", async () => {
      const statuses = [await statusOf(send("/each/beyond")), await statusOf(send("/each/beyond"))];
      expect(statuses).toEqual([200, 200]);
      const denied = await send("/each/beyond");
      expect(denied.status).toBe(429);
      const [, seconds] = /^"each";r=0;t=(\d+)$/.exec(denied.headers.get("RateLimit") ?? "") ?? [];
      expect(denied.headers.get("Retry-After")).toBe(seconds);
      expect(denied.headers.get("RateLimit-Policy")).toBe('"each";q=2;w=3600');
      expect(denied.headers.get("Cache-Control")).toBe("no-store");
      expect(await denied.text()).toContain("429 Too Many Requests");
      expect(origin.timesAsked("/each/beyond")).toBe(2);
    });

    it("lets exactly the limit in of many at once", async () => {
      const all = await Promise.all(
        Array.from({ length: 20 }, () => statusOf(send("/each/at-once"))),
      );
      const denied = all.filter((status) => status !== 200);
      expect(denied).toEqual(Array.from({ length: 18 }, () => 429));
      expect(origin.timesAsked("/each/at-once")).toBe(2);
    });

    it("answers 403 to whom no waiting helps", async () => {
      const response = await send("/barred");
      expect([response.status, response.headers.has("Retry-After")]).toEqual([403, false]);
      expect(origin.timesAsked("/barred")).toBe(0);
    });

    it("hands on methods and bodies, and Headgate decides by the method", async () => {
      const body = "x".repeat(300_000);
      const post = { method: "POST", body };
      const response = await send("/writes/a", {}, post);
      expect(await response.json()).toMatchObject({ asked: "POST /writes/a", bytes: 300_000 });
      expect(await statusOf(send("/writes/a"))).toBe(200);
      expect(await statusOf(send("/writes/a", {}, post))).toBe(200);
      expect(await statusOf(send("/writes/a", {}, post))).toBe(429);
      expect(await statusOf(send("/writes/a"))).toBe(200);
    });

    it.for([
      ["X-Forwarded-For", "192.0.2.9"],
      ["X-Forwarded-For", "192.0.2.9, 192.0.2.10"],
      ["CF-Connecting-IP", "192.0.2.9"],
      ["Forwarded", "for=192.0.2.9"],
      ["X-Original-URI", "/free"],
      ["X-Forwarded-Uri", "/free"],
      ["X-Forwarded-Uri", "not a path"],
      ["X-Original-Method", "GET"],
      ["X-Forwarded-Method", "GET"],
      ["X-Forwarded-Host", "elsewhere.example"],
      ["X-Forwarded-Proto", "wss"],
      ["X-Headgate-Token", "the client's"],
    ] as const)("charges who asks for what is asked, be the client's %s: %s", async (spoofed) => {
      const [name, value] = spoofed;
      const path = `/writes/${name}-${value.replaceAll(/\W+/g, "-")}`;
      expect(await statusOf(send(path, { [name]: value }, { method: "POST" }))).toBe(200);
      expect(await left("writes", "127.0.0.1", path)).toBe(1);
      expect(await left("elsewhere")).toBe(2);
    });

    it("tells users apart by their own tokens, and knows nobody by a forged one", async () => {
      const [ann, bob] = [await bearer("ann"), await bearer("bob")];
      const forged = await bearer("bob", "another secret, of thirty-two bytes or more");
      expect(await statusOf(send("/users", ann))).toBe(200);
      expect(await statusOf(send("/users", ann))).toBe(200);
      expect(await statusOf(send("/users", ann))).toBe(429);
      expect(await statusOf(send("/users", bob))).toBe(200);
      expect(await statusOf(send("/users", forged))).toBe(403);
      expect(await statusOf(send("/users"))).toBe(403);
      expect(await left("users", "bob")).toBe(1);
    });

    it("hands the client's token to the origin, and never its own", async () => {
      const response = await send("/each/tokens", { Authorization: "Bearer the-clients" });
      const { headers } = await response.json<Told>();
      expect(headers["authorization"]).toBe("Bearer the-clients");
      expect(JSON.stringify(headers)).not.toContain(token);
    });

    describe("that cannot ask", () => {
      const nobody = async (): Promise<Partial<Behind>> => ({
        headgate: new URL(`http://127.0.0.1:${await freePort()}`),
      });
      const withWrongToken = async (): Promise<Partial<Behind>> => ({ token: "wrong" });
      const openly = (block: string): string => block.replace("return 500;", "return 204;");

      it.for([
        ["Headgate is stopped", nobody],
        ["its token is wrong", withWrongToken],
      ] as const)("lets nobody in, or everybody where it is told to: %s", async ([name, how]) => {
        const path = `/each/${name.replaceAll(" ", "-")}`;
        const refused = await through(await how(), path);
        expect(refused.status).toBe(500);
        // Of the gateway's trouble with Headgate, a client is told nothing.
        expect(refused.headers.has("WWW-Authenticate")).toBe(false);
        expect(origin.timesAsked(path)).toBe(0);
        const letIn = await through({ ...(await how()), change: openly }, path);
        expect(letIn.status).toBe(200);
        expect(origin.timesAsked(path)).toBe(1);
      });

      it.for([422, 500, 503])("lets nobody in whom Headgate answers %s", async (status) => {
        const failing = new Origin();
        await failing.listen();
        failing.answers.set("/", ({ response }) => response.writeHead(status).end());
        try {
          const behind = { headgate: new URL(failing.url), change: openly };
          const response = await through(behind, `/each/answered-${status}`);
          expect(response.status).toBe(500);
          expect(failing.timesAsked("/check/forward?deny=403")).toBe(1);
          expect(origin.timesAsked(`/each/answered-${status}`)).toBe(0);
        } finally {
          await failing.close();
        }
      });
    });
  },
);
