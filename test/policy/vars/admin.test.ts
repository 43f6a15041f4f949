import { describe, expect, it } from "vitest";
import { configOf, problemsIn, type Variables, whole } from "../parsed.ts";

const all = new Set(["read", "write", "reveal"]);
const token = "a-token-of-alice";
const access = { ADMIN_HOST: "admin.example.com", ACCESS_TEAM: "acme", ACCESS_AUDIENCE: "a tag" };

describe("the admin API", () => {
  it.for<Variables>([
    {},
    { ADMIN_PATH: "/_ops" },
    { ADMIN_HOST: "admin.example.com", REVEAL: "admins" },
    { ADMIN_TOKENS: "", ACCESS_TEAM: "" },
    { CHECK_PATH: "/_headgate" },
  ])("without credentials there is no admin API: %j", (variables) => {
    expect(configOf(variables).admin).toBeNull();
  });

  it("a plain token in ADMIN_TOKENS has every right, and the admin API has its default path", () => {
    expect(configOf({ ADMIN_TOKENS: token }).admin).toEqual({
      path: "/_headgate",
      host: null,
      tokens: [{ token, name: "token 1", may: all }],
      access: null,
      reveal: false,
    });
  });

  it("each object in ADMIN_TOKENS gives its token a name and rights", () => {
    const written = ["first-token", { token, name: "alice", may: ["read"] }, { token: "third" }];
    for (const value of [written, JSON.stringify(written)]) {
      expect(configOf({ ADMIN_TOKENS: value }).admin?.tokens).toEqual([
        { token: "first-token", name: "token 1", may: all },
        { token, name: "alice", may: new Set(["read"]) },
        { token: "third", name: "token 3", may: all },
      ]);
    }
  });

  it.for<[string, unknown]>([
    ["a space", "hunter2 hunter2"],
    ["a right of CHECK_TOKENS", [{ token: "hunter2", may: ["check"] }]],
    ["a tenant", [{ token: "hunter2", tenant: "acme" }]],
    ["a blank name", [{ token: "hunter2", name: " " }]],
    ["a name that is too long", [{ token: "hunter2", name: "n".repeat(129) }]],
    ["a token that stands twice", ["hunter2", { token: "hunter2" }]],
    ["an object outside of a list", { token: "hunter2" }],
  ])("ADMIN_TOKENS are rejected and not quoted with %s", ([, value]) => {
    expect(problemsIn({ ...whole, ADMIN_TOKENS: value })).toEqual([
      {
        variable: "ADMIN_TOKENS",
        field: "",
        value: "(hidden)",
        accepted: expect.stringMatching(/"name".*read, write, reveal/),
      },
    ]);
  });

  it("a misspelt field of ADMIN_TOKENS is reported with a suggestion", () => {
    const [problem] = problemsIn({ ...whole, ADMIN_TOKENS: [{ token, nmae: "alice" }] });
    expect(problem?.accepted).toMatch(/; did you mean name\?$/);
  });
});

describe("ADMIN_PATH", () => {
  it.for(["/admin", "/a/b-c", "/checks", "/check-admin"])("ADMIN_PATH accepts %s", (path) => {
    expect(configOf({ ADMIN_PATH: path, ADMIN_TOKENS: token }).admin?.path).toBe(path);
  });

  it.for(["admin", "/admin/", "/", "/a//b", "/a b", "/..", "/a/../b", 5])("ADMIN_PATH rejects %j", (value) => {
    const accepted = expect.stringMatching(/a path .*"\/_headgate"/);
    expect(problemsIn({ ...whole, ADMIN_PATH: value })).toEqual([
      { variable: "ADMIN_PATH", field: "", value, accepted },
    ]);
  });

  it.for<Variables>([
    { ADMIN_PATH: "/check" },
    { ADMIN_PATH: "/check/admin" },
    { ADMIN_PATH: "/a", CHECK_PATH: "/a/check" },
    { ADMIN_TOKENS: token, CHECK_PATH: "/_headgate/check" },
  ])("ADMIN_PATH must be neither above nor below CHECK_PATH: %j", (variables) => {
    expect(problemsIn({ ...whole, ...variables })).toEqual([
      expect.objectContaining({
        variable: "ADMIN_PATH",
        accepted: expect.stringContaining("CHECK_PATH"),
      }),
    ]);
  });
});

describe("Cloudflare Access", () => {
  it.for(["acme", "ACME", "acme.cloudflareaccess.com"])("ACCESS_TEAM accepts %s", (team) => {
    expect(configOf({ ...access, ACCESS_TEAM: team }).admin).toMatchObject({
      host: "admin.example.com",
      tokens: [],
      access: { teamHost: "acme.cloudflareaccess.com", audiences: ["a tag"] },
    });
  });

  it("ACCESS_AUDIENCE may be a list", () => {
    const { admin } = configOf({ ...access, ACCESS_AUDIENCE: '["one", "other"]' });
    expect(admin?.access?.audiences).toEqual(["one", "other"]);
  });

  it.for(["acme.example.com", "https://acme.cloudflareaccess.com", "a.b.cloudflareaccess.com", "-acme", "acme/", 5])(
    "ACCESS_TEAM rejects %j",
    (value) => {
      const accepted = expect.stringContaining("Zero Trust team");
      expect(problemsIn({ ...whole, ...access, ACCESS_TEAM: value })).toEqual([
        { variable: "ACCESS_TEAM", field: "", value, accepted },
      ]);
    },
  );

  it.for<[keyof typeof access, string]>([
    ["ADMIN_HOST", "ACCESS_TEAM"],
    ["ACCESS_AUDIENCE", "ACCESS_TEAM"],
    ["ACCESS_TEAM", "ACCESS_AUDIENCE"],
  ])("%s is reported as missing because %s is set", ([name, reason]) => {
    expect(problemsIn({ ...whole, ...access, [name]: undefined })).toEqual([
      {
        variable: name,
        field: "",
        value: undefined,
        accepted: expect.stringContaining(`because ${reason} is set`),
      },
    ]);
  });

  it.for(["https://admin.example.com", "admin.example.com:8443", "a b", "*.example.com", "1", {}])(
    "ADMIN_HOST rejects %j",
    (value) => {
      expect(problemsIn({ ...whole, ADMIN_HOST: value })).toEqual([
        { variable: "ADMIN_HOST", field: "", value, accepted: expect.stringContaining("a host") },
      ]);
    },
  );

  it("ADMIN_HOST is compared in lower case and without a final dot", () => {
    const { admin } = configOf({ ADMIN_TOKENS: token, ADMIN_HOST: "Admin.Example.com." });
    expect(admin?.host).toBe("admin.example.com");
  });
});

it.for<[unknown, boolean]>([
  ["admins", true],
  ["off", false],
  ["", false],
])("REVEAL = %j is read as %j", ([REVEAL, reveal]) => {
  expect(configOf({ ADMIN_TOKENS: token, REVEAL }).admin?.reveal).toBe(reveal);
});

it("any value of REVEAL that is not documented is rejected", () => {
  expect(problemsIn({ ...whole, REVEAL: true })).toEqual([
    { variable: "REVEAL", field: "", value: true, accepted: '"off" or "admins"' },
  ]);
});

it.for<[unknown, number]>([
  [token, 1],
  [["another-token-of-check", { token, tenant: "acme" }], 1],
  ["another-token-of-check", 0],
])("with CHECK_TOKENS = %j, %i warnings name a token that both variables have", ([tokens, count]) => {
  const { warnings } = configOf({
    ADMIN_TOKENS: [{ token, may: ["read"] }],
    CHECK_TOKENS: tokens,
  });
  expect(warnings.filter((line) => line.startsWith("ADMIN_TOKENS: "))).toHaveLength(count);
});
