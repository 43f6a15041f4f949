import { describe, expect, it } from "vitest";
import type { Policy } from "../../src/policy/policy.ts";
import { createMeter } from "../../src/strategies/index.ts";
import { configOf, placesOf, problemsIn } from "./parsed.ts";

type Fields = Readonly<Record<string, unknown>>;

const policy = { name: "a", limits: "1/s" };
const longest = "3650d";
const longestMs = 3_650 * 86_400_000;

const parsed = (fields: Fields): Partial<Policy> =>
  configOf({ POLICIES: [{ ...policy, ...fields }] }).policies[0] ?? {};

/** The place of each problem, and what is accepted there. */
const problemsAt = (fields: Fields): [string, unknown, string][] =>
  problemsIn({ KEY_SECRET: "s", POLICIES: [{ ...policy, ...fields }] }).map(({ field, value, accepted }) => [
    field,
    value,
    accepted,
  ]);

describe("the field ban", () => {
  it("a policy has no ban by default", () => {
    expect(parsed({})).toMatchObject({ ban: null });
  });

  it.for<[unknown, [number, number, number]]>([
    [{ after: 3, within: "10m", for: "1h" }, [3, 600_000, 3_600_000]],
    [{ after: 1, within: "1ms", for: "1ms" }, [1, 1, 1]],
    [{ after: 1_000, within: longest, for: longest }, [1_000, longestMs, longestMs]],
    [{ after: 2, within: "day", for: "2 Weeks" }, [2, 86_400_000, 1_209_600_000]],
    ["10m", [1, 600_000, 600_000]],
    [" 90 Seconds ", [1, 90_000, 90_000]],
    ["1ms", [1, 1, 1]],
    [longest, [1, longestMs, longestMs]],
  ])("ban accepts %j", ([ban, [after, withinMs, forMs]]) => {
    expect(parsed({ ban }).ban).toMatchObject({
      strikes: [{ strategy: "sliding-log", limit: after, windowMs: withinMs }],
      term: [{ strategy: "fixed-window", limit: 1, windowMs: forMs }],
    });
  });

  it.for([{ after: 1_000, within: longest, for: longest }, "1ms", longest])(
    "the ban %j has a limit that counts denials and a limit that counts bans",
    (written) => {
      const { ban } = parsed({ ban: written });
      const nowMs = Date.UTC(2030, 0, 1);
      const [strikes, term] = [createMeter(ban?.strikes ?? []), createMeter(ban?.term ?? [])];
      const mostStrikes = ban?.strikes[0]?.limit ?? 0;
      expect(strikes.consume(mostStrikes, nowMs).allowed).toBe(true);
      expect(strikes.look(1, nowMs).allowed).toBe(false);
      expect(term.consume(1, nowMs).limits[0]?.resetAfterMs).toBe(ban?.term[0]?.windowMs);
    },
  );

  const short = /^a duration such as "10m" for a ban after the first denial; or \{ after = 3/;
  it.for([
    "",
    " ",
    "10",
    "0s",
    "-1h",
    "1.5h",
    "soon",
    "month",
    "1 year",
    "3651d",
    "1h 30m",
    "forever",
    "NaN",
    0,
    600,
    true,
    null,
  ])("ban rejects the text %j", (ban) => {
    expect(problemsAt({ ban })).toEqual([["[0].ban", ban, expect.stringMatching(short)]]);
  });

  it.for([[[]], [["10m"]], [[{ after: 1, within: "1m", for: "1m" }]]])("ban rejects the object %j", ([ban]) => {
    expect(problemsAt({ ban })).toEqual([["[0].ban", ban, "an object"]]);
  });

  const sound = { after: 3, within: "10m", for: "1h" };
  it.for([0, -1, 1.5, 1_001, Infinity, Number.NaN, "3", "NaN", null, true, [3], {}])(
    "ban.after rejects %j",
    (after) => {
      const accepted = "an integer from 1 to 1000";
      expect(problemsAt({ ban: { ...sound, after } })).toEqual([["[0].ban.after", after, accepted]]);
    },
  );

  const durations = ["", "0s", "soon", "10", "1.5h", "-1h", "month", "3651d", 600, null, true, {}];
  it.for(durations)("ban.within and ban.for reject %j", (wrong) => {
    for (const name of ["within", "for"]) {
      const accepted = expect.stringMatching(/^a duration from 1 ms to 10 years/);
      expect(problemsAt({ ban: { ...sound, [name]: wrong } })).toEqual([[`[0].ban.${name}`, wrong, accepted]]);
    }
  });

  it("all problems of a ban are reported together", () => {
    const ban = { within: "soon", for: 5, until: "x", toString: "y" };
    expect(problemsAt({ ban }).map(([field]) => field)).toEqual([
      "[0].ban.after",
      "[0].ban.within",
      "[0].ban.for",
      "[0].ban.until",
      "[0].ban.toString",
    ]);
    expect(problemsAt({ ban: {} }).map(([field, value]) => [field, value])).toEqual(
      ["after", "within", "for"].map((name) => [`[0].ban.${name}`, undefined]),
    );
  });
});

describe("the field onDeny", () => {
  const text = "text/plain; charset=utf-8";

  it("a policy has no onDeny by default", () => {
    expect(parsed({})).toMatchObject({ onDeny: null });
  });

  it.for<[Fields, object]>([
    [{}, { status: 429, body: null, contentType: text }],
    [{ status: 400 }, { status: 400, body: null, contentType: text }],
    [{ status: 599 }, { status: 599, body: null, contentType: text }],
    [{ body: "" }, { status: 429, body: "", contentType: text }],
    [{ body: "a".repeat(4_096) }, { status: 429, body: "a".repeat(4_096), contentType: text }],
    [{ body: "ä".repeat(2_048) }, { status: 429, body: "ä".repeat(2_048), contentType: text }],
    [
      { status: 503, body: "<p>Later</p>", contentType: "text/html" },
      { status: 503, body: "<p>Later</p>", contentType: "text/html" },
    ],
    [{ contentType: "a0/z9.0+x" }, { status: 429, body: null, contentType: "a0/z9.0+x" }],
    [
      { contentType: "application/vnd.api+json;charset=UTF-8" },
      { status: 429, body: null, contentType: "application/vnd.api+json;charset=UTF-8" },
    ],
  ])("onDeny accepts %j", ([onDeny, expected]) => {
    expect(parsed({ onDeny }).onDeny).toEqual(expected);
  });

  it.for([[null], ["Later"], [429], [true], [[]], [[{ status: 429 }]]])("onDeny rejects %j", ([all]) => {
    expect(problemsAt({ onDeny: all })).toEqual([["[0].onDeny", all, "an object"]]);
  });

  it.for([399, 600, 200, 302, 0, -429, 429.5, Infinity, Number.NaN, "429", null, true, [429]])(
    "onDeny.status rejects %j",
    (status) => {
      const accepted = "an integer from 400 to 599";
      expect(problemsAt({ onDeny: { status } })).toEqual([["[0].onDeny.status", status, accepted]]);
    },
  );

  it.for([null, 5, true, ["x"], { error: "x" }, "a".repeat(4_097), "ä".repeat(2_049), "\ud800"])(
    "onDeny.body rejects %j",
    (body) => {
      const accepted = "a well-formed text of at most 4096 bytes";
      expect(problemsAt({ onDeny: { body } })).toEqual([["[0].onDeny.body", body, accepted]]);
    },
  );

  it.for([
    "",
    "text",
    "text/",
    "/html",
    "text/html/x",
    "text /html",
    "text/html, text/plain",
    " text/html",
    "text/html\n",
    "text/html\r\nX-Evil: 1",
    "text/html; charset=utf-8\r\nX-Evil: 1",
    "text/html; charset=ütf",
    "text/html charset=utf-8",
    "téxt/html",
    5,
    null,
    true,
    ["text/html"],
  ])("onDeny.contentType rejects %j", (contentType) => {
    expect(problemsAt({ onDeny: { contentType } })).toEqual([
      ["[0].onDeny.contentType", contentType, 'a media type such as "text/html; charset=utf-8"'],
    ]);
  });

  it("all problems of onDeny are reported together", () => {
    const onDeny = { status: "x", body: 5, contentType: "x", headers: {}, Body: "x" };
    expect(problemsAt({ onDeny }).map(([field]) => field)).toEqual(
      Object.keys(onDeny).map((name) => `[0].onDeny.${name}`),
    );
  });
});

describe("the field dryRun", () => {
  it.for([
    [undefined, false],
    [true, true],
    [false, false],
  ] as const)("the fields %j give dryRun %j", ([dryRun, isDryRun]) => {
    expect(parsed(dryRun === undefined ? {} : { dryRun })).toMatchObject({ isDryRun });
  });

  it.for(["true", "false", "", "yes", 1, 0, null, {}, []])("dryRun rejects %j", (dryRun) => {
    expect(problemsAt({ dryRun })).toEqual([["[0].dryRun", dryRun, "true or false"]]);
  });
});

it("problems of ban, onDeny and dryRun are reported together", () => {
  const fields = { ban: "x", onDeny: { status: 1 }, dryRun: "x", count: 5, cost: 0 };
  expect(placesOf({ KEY_SECRET: "s", POLICIES: [{ ...policy, ...fields }] }).toSorted()).toEqual(
    ["ban", "cost", "count", "dryRun", "onDeny.status"].map((name) => `POLICIES [0].${name}`),
  );
});
