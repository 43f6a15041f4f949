import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import {
  CommandError,
  commandLine,
  exitWithError,
  helpOf,
  isHelp,
  messageOf,
  parseCommandLine,
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
  it("a command gets its options from the command line, or their defaults", () => {
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

it("the help text has a line for each option with its value, its default, and whether it may be repeated", () => {
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

it("the help text names the npm command of the script", () => {
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

it("the message of a thrown value that is no Error is its text", () => {
  expect([messageOf(new Error("a")), messageOf("b"), messageOf(3)]).toEqual(["a", "b", "3"]);
});
