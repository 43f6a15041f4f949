import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Answer, answersTo } from "../bench/fuzz/connection.ts";
import { startWorkerd, type Workerd } from "../bench/workerd.ts";

const folder = mkdtempSync(join(tmpdir(), "headgate-malformed-"));
const token = "the-tests-token";
const echo = `
export default {
  fetch: ({ method, url }) => new Response(method + " " + new URL(url).pathname),
};
`;
let workerd: Workerd;

beforeAll(async () => {
  const vars = { LIMITS: "1000/hour", KEY: "global", CHECK_TOKENS: token };
  workerd = await startWorkerd(folder, vars, { origin: echo });
  return workerd.close;
});

afterAll(() => rmSync(folder, { recursive: true }));

/** What is answered to these bytes, before the connection is closed for them. */
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

describe("a request of a host that is none", () => {
  it.each(["a b", "[::1", "1.2.3.4.5", "a:99999", "a, b"])(
    "is the client's fault, not Headgate's: %s",
    async (host) => {
      const answers = [await answerTo(get("/", host)), await answerTo(get("/check/nothing", host))];
      expect(answers.map((answer) => answer?.status)).toEqual([400, 400]);
      expect(answers[0]?.headers.get("content-type")).toBe("application/problem+json");
    },
  );
});

describe("a body that breaks off", () => {
  it("is no JSON to /check", async () => {
    const answer = await answerTo(chunked("/check", '3\r\n{"k\r\nno length\r\n'));
    expect([answer?.status, answer?.headers.get("content-type")]).toEqual([
      400,
      "application/problem+json",
    ]);
  });
});

describe("a path with dots", () => {
  it.each(["/a/../check/health", "/%2e/check/health", "/a\\..\\check/health", "//check//health/"])(
    "is Headgate's own where it leads there: %s",
    async (path) => {
      const answer = await answerTo(get(path));
      expect([answer?.status, answer?.body]).toEqual([200, '{"status":"ok"}']);
    },
  );

  it.each(["/check/../a", "/check/%2E./a"])(
    "is the origin's where it leads out: %s",
    async (path) => {
      expect((await answerTo(get(path)))?.body).toBe("GET /a");
    },
  );
});

it("a request of the whole server is one of its root", async () => {
  const bytes = get("*").replace("GET", "OPTIONS");
  const answer = await answerTo(bytes);
  expect([answer?.status, answer?.body]).toEqual([200, "OPTIONS /"]);
});
