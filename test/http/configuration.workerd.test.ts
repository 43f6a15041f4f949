/** The answers of a Worker whose configuration is broken, discouraged or has unknown variables. */
import { describe, expect, it, vi } from "vitest";
import { from, headgate, statusOf } from "./harness.ts";

interface BrokenConfigurationAnswer {
  errors: { variable: string; field: string; accepted: string }[];
}

/** The places that the Worker reports as invalid, such as `POLICIES [0].name`. */
const reportedPlaces = async (variables: Record<string, unknown>): Promise<string[]> => {
  const response = await headgate(variables).send("/");
  expect(response.status).toBe(500);
  const { errors } = await response.json<BrokenConfigurationAnswer>();
  return errors.map(({ variable, field }) => `${variable} ${field}`.trim());
};

describe("a broken configuration", () => {
  it("with a broken configuration, every path, including /check and /check/health, gets 500 problem details", async () => {
    const { send, check } = headgate({ LIMITS: "none" });
    for (const answer of [send("/"), send("/check/health"), check("GET", "/check?key=k")]) {
      // oxlint-disable-next-line no-await-in-loop
      const response = await answer;
      expect(response.status).toBe(500);
      expect(response.headers.get("Content-Type")).toBe("application/problem+json");
    }
  });

  it("with a broken configuration, the answer lists all problems at once, by variable and field", async () => {
    const policies = [
      { name: "a", limits: [{ limit: 0, window: "soon", strategy: "magic", extra: 1 }] },
      { name: "a", limits: "5/minute", matches: {} },
      { name: "No Name", limits: { limit: 999_999_999_999_989, window: "1d" } },
    ];
    expect(await reportedPlaces({ POLICIES: policies, ORIGIN: "nonsense", KEY_SECRET: "" })).toEqual([
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

  it("with a broken configuration, the answer does not contain the values of variables", async () => {
    const { send } = headgate({
      LIMITS: "canary1/minute",
      ORIGIN: "canary2",
      CHECK_TOKENS: "ca nary3",
    });
    const text = await (await send("/")).text();
    expect(text).toContain("CHECK_TOKENS");
    expect(text).not.toMatch(/ca ?nary/);
  });

  it("units that were spent before the configuration broke still count after its repair", async () => {
    const sound = { LIMITS: "2/minute", STRATEGY: "fixed-window", KEY_SECRET: crypto.randomUUID() };
    const visitor = from("203.0.113.7");
    await headgate(sound).send("/", visitor);
    expect(await statusOf(headgate({ ...sound, KEY: "nobody" }).send("/", visitor))).toBe(500);
    const { headers } = await headgate(sound).send("/", visitor);
    expect(headers.get("RateLimit")).toBe('"default";r=0;t=60');
  });
});

describe("a discouraged configuration", () => {
  it("a discouraged configuration is in effect, and logs one warning per isolate", async () => {
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

describe("a configuration that check-config rejects and the Worker accepts", () => {
  const sound = { LIMITS: "5/minute", CHECK_TOKENS: "a-token-of-24-characters" };

  it("unknown variables and short secrets are reported in one event per isolate, and requests are served", async () => {
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
          "unknown variable REGION; if it is your own, add its name to EXTRA_VARS",
          "KEY_SECRET: expected at least 32 random characters, got 14",
        ],
      },
    ]);
    warnings.mockRestore();
  });

  it("bindings and the variables of EXTRA_VARS are not reported as unknown", async () => {
    const warnings = vi.spyOn(console, "warn").mockReturnValue(undefined);
    const { send } = headgate({ ...sound, REGION: "eu", EXTRA_VARS: "REGION" });
    expect(await statusOf(send("/", from("203.0.113.7")))).toBe(200);
    expect(warnings).not.toHaveBeenCalled();
    warnings.mockRestore();
  });

  it("with a placeholder in place of a secret, every path is answered with 500", async () => {
    for (const path of ["/", "/check/health"]) {
      const own = headgate({ ...sound, KEY_SECRET: "at least 32 random characters" });
      // oxlint-disable-next-line no-await-in-loop
      expect(await statusOf(own.send(path))).toBe(500);
    }
    expect(await reportedPlaces({ ...sound, CHECK_TOKENS: ["at least 32 random characters"] })).toEqual([
      "CHECK_TOKENS",
    ]);
  });

  it("unknown variables are logged together with the problems of a broken configuration", async () => {
    const warnings = vi.spyOn(console, "warn").mockReturnValue(undefined);
    expect(await reportedPlaces({ ...sound, LIMITS: undefined, LIMTS: "5/minute" })).toEqual(["POLICIES"]);
    expect(warnings.mock.calls.join()).toContain("unknown variable LIMTS; did you mean LIMITS?");
    warnings.mockRestore();
  });
});
