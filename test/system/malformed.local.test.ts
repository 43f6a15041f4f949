import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Answer, answersTo } from "../tools/fuzz/connection.ts";
import { startWorkerd, type Workerd } from "../tools/workerd.ts";

const folder = mkdtempSync(join(tmpdir(), "headgate-malformed-"));
const token = "the-tests-token";
const origin = `
export default {
  fetch({ method, url, headers }) {
    const { pathname } = new URL(url);
    if (headers.get("Upgrade") !== "websocket") return new Response(method + " " + pathname);
    const { 0: client, 1: server } = new WebSocketPair();
    server.accept();
    return new Response(null, { status: 101, webSocket: client });
  },
};
`;
let workerd: Workerd;

beforeAll(async () => {
  const slots = { limit: 3, window: "1 hour", strategy: "concurrency" };
  const policies = [
    { name: "all", key: "global", limits: "1000/hour" },
    { name: "slots", match: { path: "/slots" }, key: "header:X-Key", limits: slots },
  ];
  const vars = { POLICIES: JSON.stringify(policies), CHECK_TOKENS: token };
  workerd = await startWorkerd(folder, vars, { origin });
  return workerd.close;
});

afterAll(() => rmSync(folder, { recursive: true }));

/** Sends these bytes and returns the response, after which the connection is closed. */
async function answerTo(bytes: string): Promise<Answer | undefined> {
  const { hostname, port } = workerd.url;
  const [answer] = await answersTo({ hostname, port: Number(port) }, bytes, 1_000);
  return answer;
}

const get = (target: string, host = "headgate.example"): string =>
  `GET ${target} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`;

const chunked = (target: string, body: string): string =>
  `POST ${target} HTTP/1.1\r\nHost: headgate.example\r\nAuthorization: Bearer ${token}\r\n` +
  `Content-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n${body}`;

describe("a request with an invalid host", () => {
  it.each(["a b", "[::1", "1.2.3.4.5", "a:99999", "a, b"])(
    "an invalid Host field gives a 400 and no Headgate error: %s",
    async (host) => {
      const answers = [await answerTo(get("/", host)), await answerTo(get("/check/nothing", host))];
      expect(answers.map((answer) => answer?.status)).toEqual([400, 400]);
      expect(answers[0]?.headers.get("content-type")).toBe("application/problem+json");
    },
  );
});

describe("a body that ends early", () => {
  it("a truncated /check body is rejected as invalid JSON", async () => {
    const answer = await answerTo(chunked("/check", '3\r\n{"k\r\nno length\r\n'));
    expect([answer?.status, answer?.headers.get("content-type")]).toEqual([400, "application/problem+json"]);
  });
});

describe("a path with dot segments", () => {
  it.each(["/a/../check/health", "/%2e/check/health", "/a\\..\\check/health", "//check//health/"])(
    "a path whose dot segments resolve to /check belongs to Headgate: %s",
    async (path) => {
      const answer = await answerTo(get(path));
      expect([answer?.status, answer?.body]).toEqual([200, '{"status":"ok"}']);
    },
  );

  it.each(["/check/../a", "/check/%2E./a"])(
    "a path whose dot segments lead out of /check belongs to the origin: %s",
    async (path) => {
      expect((await answerTo(get(path)))?.body).toBe("GET /a");
    },
  );
});

it("an asterisk-form request for the whole server is answered by Headgate", async () => {
  const bytes = get("*").replace("GET", "OPTIONS");
  const answer = await answerTo(bytes);
  expect([answer?.status, answer?.body]).toEqual([204, ""]);
});

describe("the slot of a WebSocket", () => {
  async function freeSlots(key: string): Promise<number | undefined> {
    const response = await fetch(new URL(`/check?policy=slots&key=${key}`, workerd.url), {
      headers: { Authorization: `Bearer ${token}` },
    });
    const { limits } = await response.json<{ limits: { remaining: number }[] }>();
    return limits[0]?.remaining;
  }

  const upgrade = (key: string, field = ""): string =>
    `GET /slots HTTP/1.1\r\nHost: headgate.example\r\nX-Key: ${key}\r\n${field}Connection: Upgrade\r\n` +
    "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

  it.each([
    ["a frame with a reserved opcode", "\x83\x81\0\0\0\0a"],
    ["a frame longer than the maximum", "\x82\xff\0\0\0\x01\0\0\0\0 and so on"],
    ["half a frame", "\x81\x8a\0\0\0\0ab"],
    ["a close frame with an invalid status code", "\x88\x82\0\0\0\0\xff\xff"],
    ["a close frame with half a status code", "\x88\x81\0\0\0\0\x03"],
  ])("a WebSocket's slot is free again after %s", async (name, frame) => {
    const key = name.replaceAll(" ", "-");
    expect((await answerTo(upgrade(key) + frame))?.status).toBe(101);
    await expect.poll(() => freeSlots(key), { timeout: 5_000 }).toBe(3);
  });

  it("an upgrade request with a body takes no WebSocket slot, because it is not a valid upgrade", async () => {
    const bytes = upgrade("body", "Transfer-Encoding: chunked\r\n");
    const answer = await answerTo(`${bytes}3\r\nabc\r\n0\r\n\r\n`);
    expect([answer?.status, answer?.body]).toEqual([200, "GET /slots"]);
    await expect.poll(() => freeSlots("body"), { timeout: 5_000 }).toBe(3);
  });
});
