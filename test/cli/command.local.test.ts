/** Command-line options, help texts, errors and ports. */
import { once } from "node:events";
import { createServer, type Server } from "node:net";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import {
  CommandError,
  commandLine,
  exitWithError,
  helpOf,
  isHelp,
  messageOf,
  parseCommandLine,
  readFreePort,
  readPort,
  runCommand,
} from "../../src/cli/command.ts";

const options = {
  port: { type: "string", default: "8787", short: "p", value: "port", about: "Where to listen." },
  quick: { type: "boolean", default: false, about: "Less exact." },
  only: { type: "string", multiple: true },
} as const;

const words = process.argv;
let printed: unknown[] = [];

beforeEach(() => {
  printed = [];
  vi.spyOn(console, "log").mockImplementation((text: unknown) => void printed.push(text));
  vi.spyOn(console, "error").mockImplementation((text: unknown) => void printed.push(text));
  vi.spyOn(process, "exit").mockImplementation((code) => {
    throw new Error(`exit ${code}`);
  });
});

afterEach(() => {
  process.argv = words;
  vi.restoreAllMocks();
});

const read = (...given: string[]): unknown => {
  process.argv = ["node", "script", ...given];
  return { ...parseCommandLine(options) };
};

describe("the options of a command", () => {
  it("a command takes its options from the command line, and otherwise their defaults", () => {
    expect(read()).toEqual({ port: "8787", quick: false });
    expect(read("-p", "1", "--quick", "--only", "a", "--only=b")).toEqual({
      port: "1",
      quick: true,
      only: ["a", "b"],
    });
  });

  it.each(["--nothing", "word", "--port"])(
    "a command rejects an invalid command line and lists its options: %s",
    (word) => {
      expect(() => read(word)).toThrow("exit 1");
      expect(printed).toEqual([
        expect.stringMatching(
          /^.*(?:Unknown option|Unexpected argument|argument missing)[^]*\nExpected one of --port, --quick, --only\.$/,
        ),
      ]);
    },
  );

  it.each(["--help", "-h"])("a command prints its help text for %s, even with unknown options", (word) => {
    expect(() => read("--nothing", word)).toThrow("exit 0");
    expect(printed).toEqual([helpOf(options)]);
    expect(isHelp(word)).toBe(true);
    expect(isHelp("--helpful")).toBe(false);
  });
});

it("the help text shows for each option its value, its default, and whether it may be repeated", () => {
  expect(helpOf(options, "npm start --")).toBe(
    [
      "Usage: npm start -- [options]",
      "",
      "Options:",
      "  -p, --port <port>  Where to listen. (default: 8787)",
      "  --quick            Less exact.",
      "  --only <value>     (repeatable)",
      "  -h, --help         Show this help.",
    ].join("\n"),
  );
});

it("the usage line of the help text shows the npm command that starts the script", () => {
  const names = ["start", "deploy", undefined].map((name) => commandLine({ npm_lifecycle_event: name }));
  expect(names).toEqual(["npm start --", "npm run deploy --", "node <script>"]);
});

describe("the errors of a command", () => {
  it("a command prints a CommandError without a stack trace and exits with 1", async () => {
    await expect(
      runCommand(() => {
        throw new CommandError("Port 1 is in use.");
      }),
    ).rejects.toThrow("exit 1");
    expect(printed).toEqual(["Port 1 is in use."]);
    expect(() => exitWithError("another message")).toThrow("exit 1");
    expect(printed.at(-1)).toBe("another message");
  });

  it("a command throws any error that is not a CommandError", async () => {
    const fault = new TypeError("a fault");
    await expect(runCommand(() => Promise.reject(fault))).rejects.toBe(fault);
    expect(printed).toEqual([]);
  });
});

it("the error message for a thrown value that is not an Error is the value's text", () => {
  expect([messageOf(new Error("a")), messageOf("b"), messageOf(3)]).toEqual(["a", "b", "3"]);
});

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
  it("npm start uses a port that is free on both the IPv4 and the IPv6 address of localhost", async () => {
    const port = await listenOn("127.0.0.1");
    servers.pop()?.close();
    expect(await readFreePort(String(port))).toBe(port);
  });

  it("npm start rejects a port that is in use on 127.0.0.1 and suggests a free port", async () => {
    const suggested = await suggestedBeside(await listenOn("127.0.0.1"));
    expect(await readFreePort(String(suggested))).toBe(suggested);
  });

  it.runIf(hasIpv6)("npm start rejects a port that is in use only on ::1", async () => {
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

  it("npm start suggests a lower port if 65535, the highest port, is in use", async () => {
    const port = await listenOn("127.0.0.1", 65_535).catch(() => 65_535);
    const suggested = await suggestedBeside(port);
    expect(suggested).toBeGreaterThanOrEqual(8_787);
    expect(suggested).toBeLessThan(65_535);
  });
});
