import { describe, expect, it } from "vitest";
import { problemsOf } from "./harness.ts";

type Fields = Readonly<Record<string, unknown>>;

const JWT_KEY = "a secret of at least thirty-two bytes";

const problemsWith = (fields: Fields, variables: Fields = { JWT_KEY }) =>
  problemsOf({
    KEY_SECRET: "s",
    ...variables,
    POLICIES: [{ name: "a", limits: "1/s", ...fields }],
  });

/** Where something is wrong with a policy of these fields. */
const placesWith = (fields: Fields, variables: Fields = { JWT_KEY }): string[] =>
  problemsWith(fields, variables).map(({ variable, field }) => `${variable} ${field}`.trim());

describe("a claim that nothing can verify", () => {
  const nothing = { JWT_KEY: undefined };
  const when = "jwt:plan=pro";

  it("is told of where the limits suit the policy's strategy and no other", () => {
    const most = { when, limits: "999999999999989/day" };
    expect(placesWith({ strategy: "fixed-window", overrides: [most] }, nothing)).toEqual([
      "JWT_KEY",
    ]);
  });

  it("is told of beside all else that is wrong with its override", () => {
    expect(placesWith({ overrides: [{ when, limits: "0/s" }] }, nothing)).toEqual([
      "POLICIES [0].overrides[0].limits.limit",
      "JWT_KEY",
    ]);
    expect(placesWith({ overrides: [{ when }] }, nothing)).toEqual([
      "POLICIES [0].overrides[0].limits",
      "JWT_KEY",
    ]);
  });
});

describe("a strategy that is none", () => {
  const strategy = "magic";

  it("is told where it is written: beside the limits of an override, or in them", () => {
    const limits = { limit: 1, window: "1s", strategy };
    const key = "203.0.113.7";
    expect(placesWith({ overrides: [{ key, limits: "1/s", strategy }] })).toEqual([
      "POLICIES [0].overrides[0].strategy",
    ]);
    expect(placesWith({ overrides: [{ key, limits }] })).toEqual([
      "POLICIES [0].overrides[0].limits.strategy",
    ]);
    expect(placesWith({ overrides: [{ key, limits: [limits], strategy }] })).toEqual([
      "POLICIES [0].overrides[0].strategy",
      "POLICIES [0].overrides[0].limits[0].strategy",
    ]);
  });
});

describe("a key that is null", () => {
  it("is wrong by itself: nothing is said of what is to fit it", () => {
    expect(placesWith({ key: null, allow: ["x"], deny: ["y"] })).toEqual(["POLICIES [0].key"]);
  });
});

describe("a key that all requests share", () => {
  it("has no text on a list, and says so", () => {
    const [problem] = problemsWith({ key: "global", allow: ["x"] });
    expect(problem?.accepted).toBe("an address or a CIDR block: no other text is a key of global");
  });

  it("beside others may be anything on a list, a star too", () => {
    const key = ["ip", "global"];
    expect(problemsWith({ key, deny: [["203.0.113.7", "*"]] })).toEqual([]);
    expect(problemsWith({ key, deny: [["203.0.113.7", "everyone"]] })).toEqual([]);
  });
});

describe("an address with a star", () => {
  it.for(["203.0.113.*", "*.0.113.7", "*.*.*.*", "0.*.255.*", "*"])("may be %s", (text) => {
    expect(problemsWith({ deny: [text] })).toEqual([]);
  });

  it.for([
    "256.0.0.*",
    "203.0.999.*",
    "010.0.0.*",
    "203.0.113.1*",
    "203.0.*",
    "*.*.*",
    "203.0.113.7.*",
    "203.0.113.*.",
    "203.0.113.**",
    "203.0.113.*/24",
    "::ffff:203.0.113.*",
    "2001:db8:*",
    "2001:db8::*",
    "**",
  ])("may not be %s, which no address would meet as it seems to say", (text) => {
    expect(problemsWith({ deny: [text] })).toEqual([
      {
        variable: "POLICIES",
        field: "[0].deny[0]",
        value: text,
        accepted: expect.stringContaining('such as "203.0.113.*", or a CIDR block, for ip'),
      },
    ]);
  });
});
