import { describe, expect, it } from "vitest";
import type { SubjectPattern, Pattern } from "../../src/policy/subject-pattern.ts";
import type { Policy } from "../../src/policy/policy.ts";
import { configOf, problemsIn } from "./parsed.ts";

type Fields = Readonly<Record<string, unknown>>;

const JWT_KEY = "a secret of at least thirty-two bytes";

const problemsWith = (fields: Fields) =>
  problemsIn({
    KEY_SECRET: "s",
    JWT_KEY,
    POLICIES: [{ name: "a", limits: "1/s", ...fields }],
  });

/** The places in which a policy with these fields has problems. */
const placesWith = (fields: Fields): string[] =>
  problemsWith(fields).map(({ variable, field }) => `${variable} ${field}`.trim());

const listsOf = (fields: Fields): Policy["lists"] | undefined =>
  configOf({ JWT_KEY, POLICIES: [{ name: "a", limits: "1/s", ...fields }] }).policies[0]?.lists;

/** A list entry as text: `203.0.113.0/24` for a network, or the patterns of a key's parts. */
const entryText = (entry: SubjectPattern): string | string[] =>
  entry.kind === "address" ? patternText(entry.pattern) : entry.patterns.map(patternText);

function patternText(pattern: Pattern): string {
  if (pattern.kind === "text") return `=${pattern.text}`;
  if (pattern.kind === "wildcard") return `~${pattern.pieces.join("*")}`;
  const { address, prefixBits } = pattern.network;
  return `${address.toString()}/${prefixBits}`;
}

const listedOf = (key: unknown, entry: unknown): unknown => listsOf({ key, deny: [entry] })?.deny.map(entryText)[0];

describe("an entry of allow or deny", () => {
  it("a problem does not quote an entry that may be a client's credential", () => {
    const valueOf = (fields: Fields): unknown => problemsWith(fields)[0]?.value;
    expect(valueOf({ key: "header:x-api-key", deny: ["sk-live-123*"] })).toBe("(hidden)");
    expect(valueOf({ key: ["ip", "jwt:sub"], allow: [["u1"]] })).toBe("(hidden)");
    expect(valueOf({ key: "query:k", overrides: [{ key: "sk-*", limits: "1/s" }] })).toBe("(hidden)");
    expect(valueOf({ key: "header:x-api-key", deny: ["10.0.0.0/33"] })).toBe("10.0.0.0/33");
    expect(valueOf({ key: "ip", deny: ["localhost"] })).toBe("localhost");
  });

  it("a problem does not quote a list entry when the policy has no key, or an override that is a text instead of an object", () => {
    const valueOf = (fields: Fields): unknown => problemsWith(fields)[0]?.value;
    expect(valueOf({ allow: ["sk_live_1"] })).toBe("(hidden)");
    expect(valueOf({ overrides: [{ key: "sk_live_1", limits: "1/s" }] })).toBe("(hidden)");
    expect(valueOf({ deny: ["10.0.0.0/33"] })).toBe("10.0.0.0/33");
    expect(valueOf({ key: "header:x-api-key", overrides: ["sk_live_1"] })).toBe("(hidden)");
  });

  it.for([
    "10.0.0.0/33",
    "10.0.0.0/",
    "64:ff9b::/96",
    "10.0.0.0/255.0.0.0",
    "1.2.3.456",
    "2001:db8::/129",
    "203.0.113.1*",
  ])("a text that resembles an address and is not one is rejected, whatever the key: %s", (entry) => {
    for (const key of ["header:x-api-key", "jwt:sub", "ip"]) {
      expect(placesWith({ key, deny: [entry] })).toEqual(["POLICIES [0].deny[0]"]);
    }
    expect(placesWith({ key: "header:x-api-key", deny: [[entry.replace("*", "")]] })).toEqual([]);
  });

  it.for<[string, string]>([
    ["203.0.113.7", "203.0.113.7/32"],
    ["0.0.0.0/0", "0.0.0.0/0"],
    ["10.0.0.0/8", "10.0.0.0/8"],
    ["10.1.2.3/8", "10.1.2.3/8"],
    ["255.255.255.255/32", "255.255.255.255/32"],
    ["::ffff:203.0.113.7", "203.0.113.7/32"],
    ["::FFFF:cb00:7107", "203.0.113.7/32"],
    ["64:ff9b::203.0.113.7", "203.0.113.7/32"],
    ["2001:DB8::1", "2001:db8::1/128"],
    ["2001:db8::/32", "2001:db8::/32"],
    ["::/0", "::/0"],
    ["::1/128", "::1/128"],
    ["203.0.113.*", "~203.0.113.*"],
    ["*.*.0.1", "~*.*.0.1"],
  ])("a valid address or network is read as one, whatever the key: %s", ([entry, expected]) => {
    for (const key of ["ip", "global", "header:x-api-key", "jwt:sub", ["ip", "path"]]) {
      expect(listedOf(key, entry)).toBe(expected);
    }
  });

  it.for<[unknown, unknown, string[]]>([
    ["header:x-api-key", "partner-42", ["=partner-42"]],
    ["header:x-api-key", ["partner-42"], ["=partner-42"]],
    ["header:x-api-key", " a ", ["= a "]],
    ["header:x-api-key", "x".repeat(1_024), [`=${"x".repeat(1_024)}`]],
    ["header:x-api-key", ["203.0.113.7"], ["=203.0.113.7"]],
    ["header:x-api-key", ["10.0.0.0/8"], ["=10.0.0.0/8"]],
    ["ip", ["203.0.113.7"], ["203.0.113.7/32"]],
    ["ip", ["10.0.0.0/8"], ["10.0.0.0/8"]],
    ["jwt:sub", "user-*", ["~user-*"]],
    ["asn", "13335", ["=13335"]],
    ["country", "*", ["~*"]],
    ["method", "patch", ["=PATCH"]],
    ["host", "API.Example.com.", ["=api.example.com"]],
    ["path", "/Admin//x/", ["=/Admin/x"]],
    [
      ["jwt:sub", "path"],
      ["u*", "/a"],
      ["~u*", "=/a"],
    ],
    [
      ["ip", "header:a"],
      ["10.0.0.0/8", "10.0.0.0/8"],
      ["10.0.0.0/8", "=10.0.0.0/8"],
    ],
    [
      ["header:a", "global"],
      ["a", "203.0.113.7"],
      ["=a", "=203.0.113.7"],
    ],
  ])("in a policy with the key %j, an entry may be %j", ([key, entry, expected]) => {
    expect(listedOf(key, entry)).toEqual(expected);
  });

  const anyKey = [5, null, true, {}, "", [], [null], [[]], [""], ["a", "b"], "\ud800"];
  const keyed: [string, unknown[]][] = [
    ["header:a", [...anyKey, "x".repeat(1_025), "*", "a*", ["a*"]]],
    ["cookie:a", ["a*"]],
    ["query:a", ["a*"]],
    ["path", ["/admin/*"]],
    ["host", ["*.example.com"]],
    ["method", ["P*"]],
    ["jwt:sub", [...anyKey, "x".repeat(1_025)]],
    ["asn", [13_335, "", null]],
    ["global", [...anyKey, "x", "*", ["203.0.113.7"]]],
    ["ip, path", [...anyKey.filter((each) => !Array.isArray(each)), "x", ["203.0.113.7"]]],
    [
      "ip, path",
      [
        ["203.0.113.7", "/a", "b"],
        ["x", "/a"],
        ["203.0.113.7", "/a*"],
      ],
    ],
    [
      "ip",
      [
        ...anyKey,
        ..."x 203.0.113 203.0.113.256 203.0.113.07 203.0.113.7:80 localhost".split(" "),
        ..."203.0.113.7/33 203.0.113.7/-1 203.0.113.7/ 203.0.113.7/8/8 203.0.113.7/8.0".split(" "),
        ..."203.0.113.0/255.255.255.0 203.0.113.7/0x8 203.0.113.7-9".split(" "),
        ..."::/129 2001:db8::/ 2001:db8::1%eth0 [::1] 64:ff9b::/96 ::ffff:0:0/96".split(" "),
        ..."::ffff:203.0.113.0/24 ::ffff:203.0.113.0/120".split(" "),
        " 203.0.113.7",
        "203.0.113.7 ",
        "203.0.113.7\n",
        "203.0.113.7, 203.0.113.8",
        "10/8",
      ],
    ],
  ];
  const refused = keyed.flatMap(([key, entries]) => entries.map((entry): [string, unknown] => [key, entry]));

  const hiddenOr = (entry: unknown): unknown => expect.toSatisfy((value) => value === "(hidden)" || value === entry);

  it.for(refused)("in a policy with the key %s, an invalid entry is reported with its place: %j", ([key, entry]) => {
    for (const list of ["allow", "deny"]) {
      expect(problemsWith({ key, [list]: ["203.0.113.1", entry] })).toEqual([
        {
          variable: "POLICIES",
          field: `[0].${list}[1]`,
          value: /^(?:header|cookie|query|jwt):/.test(key) ? hiddenOr(entry) : entry,
          accepted: expect.stringMatching(/^an address|^an IPv4|^a well-formed text|^a value with/),
        },
      ]);
    }
  });
});

describe("the lists allow and deny", () => {
  it("allow, deny and overrides default to empty lists, which are valid", () => {
    const empty = { overrides: [], allow: [], deny: [] };
    expect(listsOf({})).toEqual(empty);
    expect(listsOf(empty)).toEqual(empty);
  });

  it("a list of up to 256 entries is accepted, and keeps their order", () => {
    const keys = Array.from({ length: 257 }, (_, index) => `10.0.${index >> 8}.${index & 255}`);
    const most = keys.slice(0, 256);
    expect(listsOf({ deny: most })?.deny.map(entryText)).toEqual(most.map((each) => `${each}/32`));
    expect(placesWith({ allow: keys, deny: keys })).toEqual(["POLICIES [0].allow", "POLICIES [0].deny"]);
    const overrides = keys.map((key) => ({ key, limits: "2/s" }));
    expect(listsOf({ overrides: overrides.slice(1) })?.overrides).toHaveLength(256);
    expect(placesWith({ overrides })).toEqual(["POLICIES [0].overrides"]);
  });

  it.for([null, "203.0.113.7", "", 5, true, {}, { 0: "203.0.113.7" }])("a list cannot be %j", (written) => {
    for (const name of ["allow", "deny", "overrides"]) {
      expect(problemsWith({ [name]: written })).toEqual([
        {
          variable: "POLICIES",
          field: `[0].${name}`,
          value: written,
          accepted: expect.stringMatching(/^a list of up to 256 /),
        },
      ]);
    }
  });

  it("a hole in a list of entries is a problem", () => {
    const deny: unknown[] = ["203.0.113.7"];
    deny[2] = "203.0.113.8";
    expect(placesWith({ deny })).toEqual(["POLICIES [0].deny[1]"]);
  });
});

describe("a key that is null", () => {
  it("when the key is null, only this is reported, and list entries are not compared with the key", () => {
    expect(placesWith({ key: null, allow: ["x"], deny: ["y"] })).toEqual(["POLICIES [0].key"]);
  });
});

describe("the key global in lists", () => {
  it("an entry for the key global is rejected, and the problem states why", () => {
    const [problem] = problemsWith({ key: "global", allow: ["x"] });
    expect(problem?.accepted).toBe("an address or a CIDR block: no other text is a key of global");
  });

  it("an entry may have any text for the part global, even a star", () => {
    const key = ["ip", "global"];
    expect(problemsWith({ key, deny: [["203.0.113.7", "*"]] })).toEqual([]);
    expect(problemsWith({ key, deny: [["203.0.113.7", "everyone"]] })).toEqual([]);
  });
});

describe("an IPv4 address with stars", () => {
  it.for(["203.0.113.*", "*.0.113.7", "*.*.*.*", "0.*.255.*", "*"])("the address pattern %s is valid", (text) => {
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
  ])("the address pattern %s is rejected, because it would not match what it seems to", (text) => {
    expect(problemsWith({ key: "ip", deny: [text] })).toEqual([
      {
        variable: "POLICIES",
        field: "[0].deny[0]",
        value: text,
        accepted: expect.stringContaining('such as "203.0.113.*", or a CIDR block such as "10.0.0.0/8"'),
      },
    ]);
  });
});
