import { describe, expect, it, vi } from "vitest";
import { from, headgate, statusOf } from "./harness.ts";

interface Broken {
  status: number;
  errors: { variable: string; field: string; accepted: string }[];
}

const problemsOf = async (variables: Record<string, unknown>): Promise<string[]> => {
  const response = await headgate(variables).send("/");
  expect(response.status).toBe(500);
  const { errors } = await response.json<Broken>();
  return errors.map(({ variable, field }) => `${variable} ${field}`.trim());
};

const limits = { LIMITS: "5/minute" };

describe("a broken configuration", () => {
  it("answers 500 with problem details on every path, health and /check included", async () => {
    const { send, check } = headgate({ LIMITS: "none" });
    for (const answer of [send("/"), send("/check/health"), check("GET", "/check?key=k")]) {
      // oxlint-disable-next-line no-await-in-loop
      const response = await answer;
      expect(response.status).toBe(500);
      expect(response.headers.get("Content-Type")).toBe("application/problem+json");
    }
  });

  it("tells all of its problems at once, by variable and field", async () => {
    const policies = [
      { name: "a", limits: [{ limit: 0, window: "soon", strategy: "magic", extra: 1 }] },
      { name: "a", limits: "5/minute", matches: {} },
      { name: "No Name", limits: { limit: 999_999_999_999_989, window: "1d" } },
    ];
    expect(await problemsOf({ POLICIES: policies, ORIGIN: "nonsense", KEY_SECRET: "" })).toEqual([
      "ORIGIN",
      "POLICIES [0].limits[0].limit",
      "POLICIES [0].limits[0].window",
      "POLICIES [0].limits[0].strategy",
      "POLICIES [1].matches",
      "POLICIES [2].name",
      "POLICIES [2].limits.limit",
      "POLICIES [1].name",
      "KEY_SECRET",
    ]);
  });

  it.for<[string, Record<string, unknown>, string]>([
    ["unknown strategy", { ...limits, STRATEGY: "magic" }, "STRATEGY"],
    [
      "unknown field",
      { POLICIES: [{ name: "a", limits: "1/s", colour: 1 }] },
      "POLICIES [0].colour",
    ],
    ["bad duration", { LIMITS: "5/fortnight" }, "LIMITS window"],
    ["limit of 0", { LIMITS: "0/minute" }, "LIMITS limit"],
    ["negative limit", { LIMITS: "-5/minute" }, "LIMITS limit"],
    ["limit that is no integer", { LIMITS: "1.5/minute" }, "LIMITS limit"],
    ["limit × window too large", { LIMITS: "999999999999989/day" }, "LIMITS limit"],
    ["origin that is no URL", { ...limits, ORIGIN: "api.example.com" }, "ORIGIN"],
    ["missing secret", { ...limits, KEY_SECRET: undefined }, "KEY_SECRET"],
    ["absence of limits", {}, "POLICIES"],
  ])("is told of an %s", async ([, variables, place]) => {
    expect(await problemsOf(variables)).toEqual([place]);
  });

  it("does not tell the values that were set", async () => {
    const { send } = headgate({
      LIMITS: "canary1/minute",
      ORIGIN: "canary2",
      CHECK_TOKENS: "ca nary3",
    });
    const text = await (await send("/")).text();
    expect(text).toContain("CHECK_TOKENS");
    expect(text).not.toMatch(/ca ?nary/);
  });

  it("costs no quota: what was counted before is there when it is mended", async () => {
    const sound = { LIMITS: "2/minute", STRATEGY: "fixed-window", KEY_SECRET: crypto.randomUUID() };
    const visitor = from("203.0.113.7");
    await headgate(sound).send("/", visitor);
    expect(await statusOf(headgate({ ...sound, KEY: "nobody" }).send("/", visitor))).toBe(500);
    const { headers } = await headgate(sound).send("/", visitor);
    expect(headers.get("RateLimit")).toBe('"default";r=0;t=60');
  });
});

describe("a configuration that should rather not be used", () => {
  it("holds, and is told once in the log", async () => {
    const warnings = vi.spyOn(console, "warn").mockReturnValue(undefined);
    const elastic = { limit: 5, window: "1m", strategy: "fixed-window", elastic: true };
    const { send } = headgate({ LIMITS: elastic });
    expect(await statusOf(send("/", from("203.0.113.7")))).toBe(200);
    expect(await statusOf(send("/", from("203.0.113.7")))).toBe(200);
    expect(warnings.mock.calls).toEqual([
      [expect.stringMatching(/^\{"event":"configuration-warning","warnings":\["LIMITS: .*elastic/)],
    ]);
    warnings.mockRestore();
  });
});

describe("a configuration that cannot be deployed as it is", () => {
  const sound = { LIMITS: "5/minute", CHECK_TOKENS: "a-token-of-24-characters" };

  it("serves requests, and reports unknown variables and short secrets in one event per isolate", async () => {
    const warnings = vi.spyOn(console, "warn").mockReturnValue(undefined);
    const { send } = headgate({
      ...sound,
      STRATEGEY: "sliding-log",
      REGION: "eu",
      KEY_SECRET: "a short secret",
    });
    expect(await statusOf(send("/", from("203.0.113.7")))).toBe(200);
    expect(await statusOf(send("/", from("203.0.113.7")))).toBe(200);
    expect(warnings.mock.calls.map(([line]) => JSON.parse(String(line)) as unknown)).toEqual([
      {
        event: "configuration-warning",
        warnings: [
          "unknown variable STRATEGEY; did you mean STRATEGY?",
          "unknown variable REGION; EXTRA_VARS lists variables of your own",
          "KEY_SECRET is 14 characters long: accepted are at least 32 random characters",
        ],
      },
    ]);
    warnings.mockRestore();
  });

  it("takes no binding for a variable, and reports nothing where all is known", async () => {
    const warnings = vi.spyOn(console, "warn").mockReturnValue(undefined);
    const { send } = headgate({ ...sound, REGION: "eu", EXTRA_VARS: "REGION" });
    expect(await statusOf(send("/", from("203.0.113.7")))).toBe(200);
    expect(warnings).not.toHaveBeenCalled();
    warnings.mockRestore();
  });

  it("answers 500 on every path with the placeholder of a secret", async () => {
    for (const path of ["/", "/check/health"]) {
      const own = headgate({ ...sound, KEY_SECRET: "at least 32 random characters" });
      // oxlint-disable-next-line no-await-in-loop
      expect(await statusOf(own.send(path))).toBe(500);
    }
    expect(await problemsOf({ ...sound, CHECK_TOKENS: ["at least 32 random characters"] })).toEqual(
      ["CHECK_TOKENS"],
    );
  });

  it("names unknown variables beside the problems of a broken configuration", async () => {
    const warnings = vi.spyOn(console, "warn").mockReturnValue(undefined);
    expect(await problemsOf({ ...sound, LIMITS: undefined, LIMTS: "5/minute" })).toEqual([
      "POLICIES",
    ]);
    expect(warnings.mock.calls.join()).toContain("unknown variable LIMTS; did you mean LIMITS?");
    warnings.mockRestore();
  });
});

describe("variables", () => {
  it("may come as JSON text, as the dashboard and --var give them", async () => {
    const policies = JSON.stringify([{ name: "text", limits: ["7/minute"], key: ["global"] }]);
    const { headers } = await headgate({ POLICIES: policies }).send("/");
    expect(headers.get("RateLimit-Policy")).toBe('"text";q=7;w=60');
  });

  it("name the default strategy where they name none", async () => {
    const response = await headgate(limits).check("GET", "/check?key=203.0.113.7");
    expect(await response.json()).toMatchObject({
      limits: [{ strategy: "sliding-window-counter" }],
    });
  });
});
