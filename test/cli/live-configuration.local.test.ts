/** The configuration of a running local Worker follows edits of the files. */
import { mkdtempSync, renameSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { CommandError } from "../../src/cli/command.ts";
import { LiveConfiguration, watchFiles } from "../../src/cli/live-configuration.ts";
import type { LocalSetup } from "../../src/cli/local-setup.ts";
import { parseConfig } from "../../src/policy/vars/config.ts";

const secret = "a secret of thirty-two characters or more";

function setupWith(vars: Record<string, unknown>, other: Partial<LocalSetup> = {}): LocalSetup {
  const variables = { ORIGIN: "https://api.example.com", KEY_SECRET: secret, ...vars };
  return {
    config: parseConfig(variables),
    problems: [],
    lines: other.problems ?? [],
    warnings: [],
    wrangler: { name: "headgate" } as LocalSetup["wrangler"],
    variables,
    secretNames: ["KEY_SECRET"],
    hasDemoOrigin: false,
    hasDemoLimits: false,
    hasConsole: false,
    ...other,
  };
}
const broken = (...problems: string[]): LocalSetup => ({
  ...setupWith({ LIMITS: "1/s" }),
  config: null,
  problems,
  lines: problems,
});
const limited = (limits: string): LocalSetup => setupWith({ LIMITS: limits });

let next: () => LocalSetup;
let printed: string[];
let setups: LocalSetup[];
let run: (setup: LocalSetup) => Promise<void>;

beforeEach(() => {
  printed = [];
  setups = [];
  run = async (setup) => void setups.push(setup);
});

const configurationFrom = (setup: LocalSetup): LiveConfiguration =>
  new LiveConfiguration(setup, {
    read: () => next(),
    run: (each) => run(each),
    print: (text) => printed.push(text),
    printError: (text) => printed.push(`! ${text}`),
  });

const kept = "! The configuration has problems, so the previous one stays in effect:\n";

describe("an edit of the configuration", () => {
  it("a valid edit takes effect and prints one line about the new configuration", async () => {
    const configuration = configurationFrom(limited("5/minute"));
    next = () => limited("7/hour");
    await configuration.update();
    expect(setups).toEqual([next()]);
    expect(printed).toEqual(["In effect now: default 7 per 1h, in front of https://api.example.com."]);
  });

  it("an edit that changes no setting has no effect", async () => {
    const configuration = configurationFrom(limited("5/minute"));
    next = () => limited("5/minute");
    await configuration.update();
    expect([setups, printed]).toEqual([[], []]);
  });

  it.each([
    ["a variable", setupWith({ LIMITS: "5/minute", LEGACY_HEADERS: true })],
    ["a secret", setupWith({ LIMITS: "5/minute", KEY_SECRET: `${secret}!` })],
    ["a secret into a variable", { ...limited("5/minute"), secretNames: [] }],
    ["a binding", { ...limited("5/minute"), wrangler: { name: "other" } as LocalSetup["wrangler"] }],
  ])("an edit takes effect when it changes %s", async (_, setup) => {
    const configuration = configurationFrom(limited("5/minute"));
    next = () => setup;
    await configuration.update();
    expect(setups).toEqual([setup]);
  });

  it("an edit with problems, or one that cannot be read, leaves the last valid configuration in effect", async () => {
    const configuration = configurationFrom(limited("5/minute"));
    next = () => broken("LIMITS is bad", "KEY is bad");
    await configuration.update();
    next = () => {
      throw new CommandError("wrangler.toml:3: Invalid TOML");
    };
    await configuration.update();
    expect(setups).toEqual([]);
    expect(printed).toEqual([`${kept}  LIMITS is bad\n  KEY is bad`, `${kept}  wrangler.toml:3: Invalid TOML`]);
  });

  it("an edit that corrects a rejected edit is confirmed, even if the configuration is the same as before", async () => {
    const configuration = configurationFrom(limited("5/minute"));
    for (const failing of [
      () => broken("bad"),
      (): LocalSetup => {
        throw new CommandError("worse");
      },
    ]) {
      next = failing;
      await configuration.update();
      printed = [];
      next = () => limited("5/minute");
      await configuration.update();
      await configuration.update();
      expect(setups).toEqual([]);
      expect(printed).toEqual(["In effect now: default 5 per 1m, in front of https://api.example.com."]);
    }
  });

  it("each new warning is printed once", async () => {
    const configuration = configurationFrom(setupWith({ LIMITS: "5/minute" }, { warnings: ["old"] }));
    next = () => setupWith({ LIMITS: "5/minute" }, { warnings: ["old", "new"] });
    await configuration.update();
    await configuration.update();
    expect(printed).toEqual(["! new"]);
  });

  it("an edit that replaces problems with other problems sends the new problems to the Worker", async () => {
    const configuration = configurationFrom(broken("first"));
    next = () => ({ ...broken("second"), variables: { LIMITS: "0/s" } });
    await configuration.update();
    expect(setups).toEqual([next()]);
    expect(printed).toEqual(["! The configuration has problems:\n  second"]);
    printed = [];
    next = () => limited("5/minute");
    await configuration.update();
    expect(setups.at(-1)).toEqual(next());
    expect(printed).toEqual([expect.stringMatching(/^In effect now: /)]);
  });

  it("an edit that adds a problem, such as an unknown variable, to a valid configuration is rejected", async () => {
    const configuration = configurationFrom(limited("5/minute"));
    next = () => setupWith({ LIMITS: "6/minute" }, { problems: ["unknown variable KEI"] });
    await configuration.update();
    expect(setups).toEqual([]);
    expect(printed).toEqual([`${kept}  unknown variable KEI`]);
  });

  it("if the configuration in effect has a problem, an edit that leaves the problem takes effect and prints the problem again", async () => {
    const short = { problems: ["KEY_SECRET is short"] };
    const configuration = configurationFrom(setupWith({ LIMITS: "5/minute" }, short));
    next = () => setupWith({ LIMITS: "6/minute" }, short);
    await configuration.update();
    expect(setups).toEqual([next()]);
    expect(printed).toEqual([
      "! The configuration has problems:\n  KEY_SECRET is short",
      expect.stringMatching(/^In effect now: default 6 per 1m,/),
    ]);
  });

  it("an edit with which the Worker cannot run is undone, and a later edit takes effect", async () => {
    const configuration = configurationFrom(limited("5/minute"));
    run = async (setup) => {
      setups.push(setup);
      if (setup.wrangler.name === "bad") throw new CommandError("no such class");
    };
    const bad = { ...limited("6/minute"), wrangler: { name: "bad" } as LocalSetup["wrangler"] };
    next = () => bad;
    await configuration.update();
    expect(setups).toEqual([bad, limited("5/minute")]);
    expect(printed).toEqual([`${kept}  no such class`]);
    next = () => limited("8/minute");
    await configuration.update();
    expect(setups.at(-1)).toEqual(limited("8/minute"));
    expect(printed.at(-1)).toContain("default 8 per 1m");
  });

  it("an edit while the code does not compile is reported as not in effect, and later edits take effect", async () => {
    const configuration = configurationFrom(limited("5/minute"));
    run = () => Promise.reject(new CommandError("The Worker could not be built."));
    next = () => limited("6/minute");
    await configuration.update();
    expect(printed).toEqual([`${kept}  The Worker could not be built.`]);
    run = async (setup) => void setups.push(setup);
    await configuration.update();
    expect(setups).toEqual([limited("6/minute")]);
  });

  it("edits during an update are applied in the next update, and the last edit wins", async () => {
    const configuration = configurationFrom(limited("5/minute"));
    const { promise: isLoaded, resolve: load } = Promise.withResolvers<void>();
    let running = 0;
    run = async (setup) => {
      running += 1;
      expect(running).toBe(1);
      setups.push(setup);
      await isLoaded;
      running -= 1;
    };
    const limits = ["6/minute", "8/minute"];
    next = () => limited(limits.shift() ?? "9/minute");
    const changes = [configuration.update(), configuration.update(), configuration.update()];
    load();
    await Promise.all(changes);
    expect(setups).toEqual([limited("6/minute"), limited("8/minute")]);
    await configuration.update();
    expect(setups.at(-1)).toEqual(limited("9/minute"));
  });

  it("an update throws any error that is not a CommandError", async () => {
    const configuration = configurationFrom(limited("5/minute"));
    next = () => {
      throw new TypeError("a fault");
    };
    await expect(configuration.update()).rejects.toThrow("a fault");
    next = () => limited("6/minute");
    run = () => Promise.reject(new TypeError("another fault"));
    await expect(configuration.update()).rejects.toThrow("another fault");
  });
});

let folder = "";
let watch: NodeJS.Timeout | undefined;
const changed = vi.fn<() => void>();
const file = (name: string): string => join(folder, name);

beforeEach(() => {
  vi.useFakeTimers();
  changed.mockReset();
  folder = mkdtempSync(join(tmpdir(), "headgate-watch-"));
  writeFileSync(file("a"), "1");
  watch = watchFiles([file("a"), file("b")], changed);
});

afterEach(() => {
  clearInterval(watch);
  vi.useRealTimers();
  rmSync(folder, { recursive: true });
});

/** Long enough for a poll to see a change, and for the second without changes that must follow. */
const settle = (): unknown => vi.advanceTimersByTime(1_400);

describe("a watched file", () => {
  it("a file is reported once after its contents have changed", () => {
    settle();
    expect(changed).toHaveBeenCalledTimes(0);
    writeFileSync(file("a"), "2");
    settle();
    settle();
    expect(changed).toHaveBeenCalledTimes(1);
  });

  it("a file is reported when another file replaces it under its name", () => {
    writeFileSync(file("a.tmp"), "2");
    renameSync(file("a.tmp"), file("a"));
    settle();
    expect(changed).toHaveBeenCalledTimes(1);
    writeFileSync(file("a.tmp"), "3");
    renameSync(file("a.tmp"), file("a"));
    settle();
    expect(changed).toHaveBeenCalledTimes(2);
  });

  it("a file is reported when it is deleted, and again when it is created", () => {
    rmSync(file("a"));
    settle();
    expect(changed).toHaveBeenCalledTimes(1);
    writeFileSync(file("a"), "1");
    settle();
    expect(changed).toHaveBeenCalledTimes(2);
  });

  it("a file is reported when it is created, and again when it is emptied", () => {
    writeFileSync(file("b"), "");
    settle();
    expect(changed).toHaveBeenCalledTimes(1);
    writeFileSync(file("a"), "");
    settle();
    expect(changed).toHaveBeenCalledTimes(2);
  });

  it("a file is not reported when only its times change or when the same contents are written again", () => {
    utimesSync(file("a"), 1, 1);
    writeFileSync(file("a"), "1");
    settle();
    expect(changed).not.toHaveBeenCalled();
  });

  it("several quick changes are reported once, a second after the last", () => {
    for (let change = 0; change < 10; change++) {
      writeFileSync(file("a"), `change ${change}`);
      vi.advanceTimersByTime(900);
    }
    expect(changed).not.toHaveBeenCalled();
    vi.advanceTimersByTime(500);
    expect(changed).toHaveBeenCalledTimes(1);
  });

  it("a change is reported a second later at the earliest, so that counters are stored before", () => {
    writeFileSync(file("a"), "2");
    vi.advanceTimersByTime(1_000);
    expect(changed).not.toHaveBeenCalled();
    vi.advanceTimersByTime(200);
    expect(changed).toHaveBeenCalledTimes(1);
  });

  it("a change that is reverted before the next poll is not reported", () => {
    writeFileSync(file("a"), "2");
    vi.advanceTimersByTime(400);
    writeFileSync(file("a"), "1");
    settle();
    expect(changed).not.toHaveBeenCalled();
  });

  it("a change after the watch has been closed is not reported", () => {
    clearInterval(watch);
    writeFileSync(file("a"), "2");
    settle();
    expect(changed).not.toHaveBeenCalled();
  });
});
