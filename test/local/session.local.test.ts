import { beforeEach, describe, expect, it } from "vitest";
import { parseConfig } from "../../src/config/index.ts";
import { CommandError } from "../../src/local/command.ts";
import type { Plan } from "../../src/local/plan.ts";
import { Session } from "../../src/local/session.ts";

const secret = "a secret of thirty-two characters or more";

function planWith(vars: Record<string, unknown>, other: Partial<Plan> = {}): Plan {
  const variables = { ORIGIN: "https://api.example.com", KEY_SECRET: secret, ...vars };
  return {
    config: parseConfig(variables),
    problems: [],
    warnings: [],
    wrangler: { name: "headgate" } as Plan["wrangler"],
    variables,
    secretNames: ["KEY_SECRET"],
    isDemoOrigin: false,
    isDemoPolicy: false,
    ...other,
  };
}
const broken = (...problems: string[]): Plan => ({
  ...planWith({ LIMITS: "1/s" }),
  config: null,
  problems,
});
const limited = (limits: string): Plan => planWith({ LIMITS: limits });

let next: () => Plan;
let printed: string[];
let ran: Plan[];
let run: (plan: Plan) => Promise<void>;

beforeEach(() => {
  printed = [];
  ran = [];
  run = async (plan) => void ran.push(plan);
});

const sessionFrom = (plan: Plan): Session =>
  new Session(plan, {
    read: () => next(),
    run: (each) => run(each),
    print: (text) => printed.push(text),
    complain: (text) => printed.push(`! ${text}`),
  });

const kept = "! The configuration has problems, so the previous one stays in effect:\n";

describe("an edit of the configuration", () => {
  it("takes effect, and one line says what is in effect", async () => {
    const session = sessionFrom(limited("5/minute"));
    next = () => limited("7/hour");
    await session.changed();
    expect(ran).toEqual([next()]);
    expect(printed).toEqual([
      "In effect now: default 7 per 1h, in front of https://api.example.com.",
    ]);
  });

  it("that changes no setting does nothing", async () => {
    const session = sessionFrom(limited("5/minute"));
    next = () => limited("5/minute");
    await session.changed();
    expect([ran, printed]).toEqual([[], []]);
  });

  it.each([
    ["a variable", planWith({ LIMITS: "5/minute", LEGACY_HEADERS: true })],
    ["a secret", planWith({ LIMITS: "5/minute", KEY_SECRET: `${secret}!` })],
    ["a secret into a variable", { ...limited("5/minute"), secretNames: [] }],
    ["a binding", { ...limited("5/minute"), wrangler: { name: "other" } as Plan["wrangler"] }],
  ])("takes effect when it changes %s", async (_, plan) => {
    const session = sessionFrom(limited("5/minute"));
    next = () => plan;
    await session.changed();
    expect(ran).toEqual([plan]);
  });

  it("with problems leaves the last valid configuration in effect, and so does one that cannot be read", async () => {
    const session = sessionFrom(limited("5/minute"));
    next = () => broken("LIMITS is bad", "KEY is bad");
    await session.changed();
    next = () => {
      throw new CommandError("wrangler.toml:3: Invalid TOML");
    };
    await session.changed();
    expect(ran).toEqual([]);
    expect(printed).toEqual([
      `${kept}  LIMITS is bad\n  KEY is bad`,
      `${kept}  wrangler.toml:3: Invalid TOML`,
    ]);
  });

  it("that repairs the configuration is confirmed, even where it changes nothing in the end", async () => {
    const session = sessionFrom(limited("5/minute"));
    for (const failing of [
      () => broken("bad"),
      (): Plan => {
        throw new CommandError("worse");
      },
    ]) {
      next = failing;
      await session.changed();
      printed = [];
      next = () => limited("5/minute");
      await session.changed();
      await session.changed();
      expect(ran).toEqual([]);
      expect(printed).toEqual([
        "In effect now: default 5 per 1m, in front of https://api.example.com.",
      ]);
    }
  });

  it("prints each warning once, when it is new", async () => {
    const session = sessionFrom(planWith({ LIMITS: "5/minute" }, { warnings: ["old"] }));
    next = () => planWith({ LIMITS: "5/minute" }, { warnings: ["old", "new"] });
    await session.changed();
    await session.changed();
    expect(printed).toEqual(["! new"]);
  });

  it("from problems to other problems shows those of the latest edit to clients", async () => {
    const session = sessionFrom(broken("first"));
    next = () => ({ ...broken("second"), variables: { LIMITS: "0/s" } });
    await session.changed();
    expect(ran).toEqual([next()]);
    expect(printed).toEqual(["! The configuration has problems:\n  second"]);
    printed = [];
    next = () => limited("5/minute");
    await session.changed();
    expect(ran.at(-1)).toEqual(next());
    expect(printed).toEqual([expect.stringMatching(/^In effect now: /)]);
  });

  it("that brings a problem to a valid configuration is rejected, such as an unknown variable", async () => {
    const session = sessionFrom(limited("5/minute"));
    next = () => planWith({ LIMITS: "6/minute" }, { problems: ["unknown variable KEI"] });
    await session.changed();
    expect(ran).toEqual([]);
    expect(printed).toEqual([`${kept}  unknown variable KEI`]);
  });

  it("that keeps a problem takes effect, and the problem is printed again", async () => {
    const short = { problems: ["KEY_SECRET is short"] };
    const session = sessionFrom(planWith({ LIMITS: "5/minute" }, short));
    next = () => planWith({ LIMITS: "6/minute" }, short);
    await session.changed();
    expect(ran).toEqual([next()]);
    expect(printed).toEqual([
      "! The configuration has problems:\n  KEY_SECRET is short",
      expect.stringMatching(/^In effect now: default 6 per 1m,/),
    ]);
  });

  it("that the Worker cannot run is undone, and a later one takes effect", async () => {
    const session = sessionFrom(limited("5/minute"));
    run = async (plan) => {
      ran.push(plan);
      if (plan.wrangler.name === "bad") throw new CommandError("no such class");
    };
    const bad = { ...limited("6/minute"), wrangler: { name: "bad" } as Plan["wrangler"] };
    next = () => bad;
    await session.changed();
    expect(ran).toEqual([bad, limited("5/minute")]);
    expect(printed).toEqual([`${kept}  no such class`]);
    next = () => limited("8/minute");
    await session.changed();
    expect(ran.at(-1)).toEqual(limited("8/minute"));
    expect(printed.at(-1)).toContain("default 8 per 1m");
  });

  it("while the code is broken as well is reported, and later edits are still read", async () => {
    const session = sessionFrom(limited("5/minute"));
    run = () => Promise.reject(new CommandError("The Worker could not be built."));
    next = () => limited("6/minute");
    await session.changed();
    expect(printed).toEqual([`${kept}  The Worker could not be built.`]);
    run = async (plan) => void ran.push(plan);
    await session.changed();
    expect(ran).toEqual([limited("6/minute")]);
  });

  it("during another edit's update is part of the next update, and the last one wins", async () => {
    const session = sessionFrom(limited("5/minute"));
    const { promise: isLoaded, resolve: load } = Promise.withResolvers<void>();
    let running = 0;
    run = async (plan) => {
      running += 1;
      expect(running).toBe(1);
      ran.push(plan);
      await isLoaded;
      running -= 1;
    };
    const limits = ["6/minute", "8/minute"];
    next = () => limited(limits.shift() ?? "9/minute");
    const changes = [session.changed(), session.changed(), session.changed()];
    load();
    await Promise.all(changes);
    expect(ran).toEqual([limited("6/minute"), limited("8/minute")]);
    await session.changed();
    expect(ran.at(-1)).toEqual(limited("9/minute"));
  });

  it("does not hide a fault of the program", async () => {
    const session = sessionFrom(limited("5/minute"));
    next = () => {
      throw new TypeError("a fault");
    };
    await expect(session.changed()).rejects.toThrow("a fault");
    next = () => limited("6/minute");
    run = () => Promise.reject(new TypeError("another fault"));
    await expect(session.changed()).rejects.toThrow("another fault");
  });
});
