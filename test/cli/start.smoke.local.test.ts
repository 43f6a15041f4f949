import { execFileSync } from "node:child_process";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { checkout, freePort, type Run, started, stopped } from "../system/checkout.ts";

const { folder, remove } = checkout();
let url = "";
let run: Run;

beforeAll(async () => {
  const port = await freePort();
  url = `http://localhost:${port}`;
  run = await started(folder, port);
});

afterAll(async () => {
  await stopped(run);
  remove();
});

describe("npm start in a fresh checkout", () => {
  it("the commands that npm start prints proxy a request, check a key, charge it and reset it", () => {
    const output = run.output();
    expect(output).toContain(`Headgate is running at ${url}`);
    expect(output).toContain("configuration  [vars] in wrangler.toml");
    const commands = output.split("\n").filter((line) => line.startsWith("  curl "));
    const answers = commands.map((command) => execFileSync("sh", ["-c", command], { encoding: "utf8" }));
    expect(answers.map((answer) => answer.split("\r\n")[0])).toEqual([
      "HTTP/1.1 200 OK",
      expect.stringContaining('"remaining":4'),
      expect.stringContaining('"cost":2'),
      "HTTP/1.1 204 No Content",
    ]);
    // No other request has reached the demo origin before.
    expect(answers[0]).toContain('"served": 1,');
  });

  it("the printed link opens the console on its own host, and the token in the link is valid", () => {
    const [, link = ""] = /console +(http:\S+)/.exec(run.output()) ?? [];
    const { host, port, pathname, hash } = new URL(link);
    expect([host, pathname]).toEqual([`admin.localhost:${port}`, "/_headgate/"]);
    const read = (...words: string[]): string =>
      execFileSync("curl", ["-s", "-H", `Host: ${host}`, ...words], { encoding: "utf8" });
    expect(read(`${url}${pathname}`)).toContain('<div id="console">');
    const token = decodeURIComponent(hash.replace("#token=", ""));
    const operator = read("-H", `Authorization: Bearer ${token}`, `${url}${pathname}api/operator`);
    expect(JSON.parse(operator)).toMatchObject({ may: ["read", "write", "reveal"] });
    expect(read(`${url}/hello`)).toContain("no endpoint at this path");
  });

  it("the demo allows five requests and denies the sixth with RateLimit fields", async () => {
    const responses = [];
    for (let request = 0; request < 6; request++) {
      // oxlint-disable-next-line no-await-in-loop
      responses.push(await fetch(`${url}/hello`));
    }
    expect(responses.map((response) => response.status)).toEqual([200, 200, 200, 200, 200, 429]);
    const fields = responses.map(({ headers }) => headers.get("RateLimit")?.slice(0, 13));
    expect(fields).toEqual([4, 3, 2, 1, 0, 0].map((remaining) => `"default";r=${remaining}`));
    expect(await responses[0]?.text()).toContain("Hello from the demo origin.");
    const waitSeconds = Number(responses[5]?.headers.get("Retry-After"));
    expect(waitSeconds).toBeGreaterThanOrEqual(1);
    expect(waitSeconds).toBeLessThanOrEqual(10);
  });
});
