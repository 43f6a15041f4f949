/** `npm run explain` as a process: where it finds its token and server, and what it prints. */
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { once } from "node:events";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { checkout, runNpm } from "../system/checkout.ts";

const { folder, configure, remove } = checkout();

interface Received {
  readonly url: string | undefined;
  readonly authorization: string | undefined;
  readonly body: unknown;
}

const received: Received[] = [];
const server = createServer((request, response) => {
  const chunks: string[] = [];
  request.setEncoding("utf8").on("data", (chunk: string) => chunks.push(chunk));
  request.on("end", () => {
    const { url, headers } = request;
    const { authorization } = headers;
    received.push({ url, authorization, body: JSON.parse(chunks.join("")) });
    response.writeHead(200, { "Content-Type": "application/json" });
    response.end(JSON.stringify({ text: ["Denied for 3.2 s.", "Limits:"] }));
  });
});
let url = "";

beforeAll(async () => {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  url = `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`;
  configure(['ORIGIN = "https://origin.example"', 'ADMIN_PATH = "/ops"']);
  const tokens = [
    { token: "the-writing-token", may: ["write"] },
    { token: "the-reading-token", may: ["read"] },
  ];
  writeFileSync(join(folder, ".dev.vars"), `ADMIN_TOKENS='${JSON.stringify(tokens)}'\n`);
});

afterAll(() => {
  server.close();
  remove();
});

async function explain(...words: string[]): Promise<[number | null, string]> {
  const run = runNpm(folder, "run", "--silent", "explain", "--", ...words);
  return [await run.ended, run.output()];
}

describe("npm run explain", () => {
  it("npm run explain sends the first token of .dev.vars that may read, and prints plain text without a terminal", async () => {
    expect(await explain("--policy", "login", "--key", "203.0.113.7", "--url", url)).toEqual([
      0,
      "Denied for 3.2 s.\nLimits:\n",
    ]);
    expect(received).toEqual([
      {
        url: "/ops/api/keys/explain",
        authorization: "Bearer the-reading-token",
        body: { policy: "login", key: ["203.0.113.7"] },
      },
    ]);
  });

  it("npm run explain does not send a token of .dev.vars to another machine", async () => {
    const [exitCode, output] = await explain("--policy", "a", "--url", "https://limits.example");
    expect(exitCode).toBe(1);
    expect(output).toMatch(/^No token for https:\/\/limits\.example: expected --token or /);
  });
});
