import { once } from "node:events";
import { createServer, type Server } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { readFreePort, readPort } from "../../src/local/port.ts";

const servers: Server[] = [];
afterEach(async () => {
  await Promise.all(
    servers.splice(0).map(async (server) => {
      server.close();
      await once(server, "close");
    }),
  );
});

/** @param port 0 for any */
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

describe("a port", () => {
  it.each([
    ["1", 1],
    ["8787", 8787],
    ["65535", 65_535],
  ])("may be %s", (text, port) => {
    expect(readPort(text)).toBe(port);
  });

  it.each(["0", "-1", "65536", "99999", "100000", "abc", "", "8787x", "08787", "80.5", " 80"])(
    "is not %j",
    (text) => {
      expect(() => readPort(text)).toThrow(
        `--port: expected a port from 1 to 65535, got "${text}"`,
      );
    },
  );
});

/** The port that the message suggests. */
async function suggestedBeside(port: number): Promise<number> {
  const message = await readFreePort(String(port)).then(
    () => "it was free",
    (error: Error) => error.message,
  );
  const taken = `^Port ${port} is in use\\. Stop the program that uses it, or choose another port: npm start -- --port `;
  expect(message).toMatch(new RegExp(`${taken}\\d+$`));
  return Number(/\d+$/.exec(message)?.[0]);
}

describe("the port of npm start", () => {
  it("is used when it is free on both addresses of localhost", async () => {
    const port = await listenOn("127.0.0.1");
    servers.pop()?.close();
    expect(await readFreePort(String(port))).toBe(port);
  });

  it("is refused when it is taken on 127.0.0.1, and the suggested port is free", async () => {
    const suggested = await suggestedBeside(await listenOn("127.0.0.1"));
    expect(await readFreePort(String(suggested))).toBe(suggested);
  });

  it.runIf(hasIpv6)("is refused when it is taken on ::1 alone", async () => {
    const suggested = await suggestedBeside(await listenOn("::1"));
    expect(await readFreePort(String(suggested))).toBe(suggested);
  });

  it("is refused when it is taken on all addresses", async () => {
    await suggestedBeside(await listenOn("0.0.0.0"));
  });

  it("is never suggested while it is taken itself", async () => {
    const port = await listenOn("127.0.0.1");
    await listenOn(hasIpv6 ? "::1" : "127.0.0.1", port + 1).catch(() => 0);
    expect(await suggestedBeside(port)).toBeGreaterThan(port + 1);
  });

  it("has a port below 65536 suggested in place of the highest one", async () => {
    const port = await listenOn("127.0.0.1", 65_535).catch(() => 65_535);
    const suggested = await suggestedBeside(port);
    expect(suggested).toBeGreaterThanOrEqual(8_787);
    expect(suggested).toBeLessThan(65_535);
  });
});
