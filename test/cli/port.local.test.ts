import { once } from "node:events";
import { createServer, type Server } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { readFreePort, readPort } from "../../src/cli/command.ts";

const servers: Server[] = [];
afterEach(async () => {
  await Promise.all(
    servers.splice(0).map(async (server) => {
      server.close();
      await once(server, "close");
    }),
  );
});

/** @param port 0 for any free port */
async function listenOn(host: string, port = 0): Promise<number> {
  const server = createServer().listen({ host, port, ipv6Only: true });
  await once(server, "listening");
  servers.push(server);
  const address = server.address();
  return address !== null && typeof address === "object" ? address.port : 0;
}

const hasIpv6 = await listenOn("::1").then(
  () => true,
  () => false,
);

describe("the text of --port", () => {
  it.each([
    ["1", 1],
    ["8787", 8787],
    ["65535", 65_535],
  ])("a port may be %s", (text, port) => {
    expect(readPort(text)).toBe(port);
  });

  it.each(["0", "-1", "65536", "99999", "100000", "abc", "", "8787x", "08787", "80.5", " 80"])(
    "%j is rejected as a port",
    (text) => {
      expect(() => readPort(text)).toThrow(`--port: expected a port from 1 to 65535, got "${text}"`);
    },
  );
});

/** The port that the error message suggests. */
async function suggestedBeside(port: number): Promise<number> {
  const message = await readFreePort(String(port)).then(
    () => "it was free",
    (error: Error) => error.message,
  );
  const taken = `^Port ${port} is in use\\. Stop the program that uses it, or choose another port: --port `;
  expect(message).toMatch(new RegExp(`${taken}\\d+$`));
  return Number(/\d+$/.exec(message)?.[0]);
}

describe("the port of npm start", () => {
  it("npm start uses a port that is free on both addresses of localhost", async () => {
    const port = await listenOn("127.0.0.1");
    servers.pop()?.close();
    expect(await readFreePort(String(port))).toBe(port);
  });

  it("npm start rejects a port that is in use on 127.0.0.1 and suggests a free one", async () => {
    const suggested = await suggestedBeside(await listenOn("127.0.0.1"));
    expect(await readFreePort(String(suggested))).toBe(suggested);
  });

  it.runIf(hasIpv6)("npm start rejects a port that is in use on ::1 only", async () => {
    const suggested = await suggestedBeside(await listenOn("::1"));
    expect(await readFreePort(String(suggested))).toBe(suggested);
  });

  it("npm start rejects a port that is in use on all addresses", async () => {
    await suggestedBeside(await listenOn("0.0.0.0"));
  });

  it("npm start never suggests a port that is in use", async () => {
    const port = await listenOn("127.0.0.1");
    await listenOn(hasIpv6 ? "::1" : "127.0.0.1", port + 1).catch(() => 0);
    expect(await suggestedBeside(port)).toBeGreaterThan(port + 1);
  });

  it("npm start suggests a lower port if the highest one, 65535, is in use", async () => {
    const port = await listenOn("127.0.0.1", 65_535).catch(() => 65_535);
    const suggested = await suggestedBeside(port);
    expect(suggested).toBeGreaterThanOrEqual(8_787);
    expect(suggested).toBeLessThan(65_535);
  });
});
