/** Spellings of keys: lists, rules, `/check`, explanations and resets read each spelling as the same key. */
import { describe, expect, it } from "vitest";
import { statusOf } from "../http/harness.ts";
import { type Admin, admin, fieldsOf } from "./admin.ts";

type Init = NonNullable<Parameters<Admin["send"]>[1]>;
type Text = string | null;
type Key = string | readonly Text[];

const secret = "a secret of the tests, thirty-two bytes or more";
const at = (cf: Record<string, unknown>): Init => ({
  cf: cf as unknown as IncomingRequestCfProperties,
});
const withHeader = (name: string, value: string): Init => ({ headers: { [name]: value } });
const from = (address: string): Init => withHeader("CF-Connecting-IP", address);

const keyFields = (key: Key): string[][] => [key].flat().map((text) => ["key", text ?? ""]);
const partsIn = ({ key }: Row): number => [key].flat().length;

/** A request, and the spellings of its key. */
interface Row {
  readonly key: string | readonly string[];
  readonly url?: string;
  readonly init?: Init;
  readonly spellings: readonly Key[];
  readonly fields?: object;
}

const group = "2001:db8:1:2::/64";
const rows: readonly Row[] = [
  { key: "asn", init: at({ asn: 13_335 }), spellings: ["13335", "AS13335", "as13335", "AS013335"] },
  { key: "country", init: at({ country: "DE" }), spellings: ["DE", "de", "De", ["de"]] },
  { key: "country", init: at({ country: "T1" }), spellings: ["T1", "t1"] },
  { key: "continent", init: at({ continent: "EU" }), spellings: ["EU", "eu"] },
  { key: "colo", init: at({ colo: "FRA" }), spellings: ["FRA", "fra"] },
  {
    key: "ip",
    init: from("203.0.113.7"),
    spellings: ["203.0.113.7", "::ffff:203.0.113.7", "64:ff9b::cb00:7107"],
  },
  {
    key: "ip",
    init: from("2001:db8:1:2::3"),
    spellings: ["2001:db8:1:2::3", "2001:0DB8:1:2:0:0:0:3", group],
  },
  {
    key: "ip",
    init: from("2001:db8:1:2:3:4:5:6"),
    spellings: ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2:3:4:5:6::/128"],
    fields: { ipv6Prefix: 128 },
  },
  { key: "method", init: { method: "PUT" }, spellings: ["PUT", "put"] },
  {
    key: "host",
    url: "https://api.example.com:8443/x",
    spellings: ["api.example.com", "API.example.com.", "api.example.com:8443", "api.example.com:"],
  },
  {
    key: "host",
    url: "https://xn--bcher-kva.example/",
    spellings: ["xn--bcher-kva.example", "bücher.example", "BÜCHER.example."],
  },
  { key: "path", url: "/a/b", spellings: ["/a/b", "/a/b/", "//a/%62", "a/b", "/x/../a/b"] },
  { key: "header:x-user", init: withHeader("X-User", "  Zoe A "), spellings: ["Zoe A"] },
  { key: "cookie:sid", init: withHeader("Cookie", 'sid="a%20b"'), spellings: ["a b"] },
  { key: "query:k", url: "/?k=a%2Cb%20", spellings: ["a,b "] },
  { key: ["country", "global"], init: at({ country: "DE" }), spellings: [["de", null]] },
  {
    key: ["asn", "header:x-user"],
    init: { ...at({ asn: 64_500 }), headers: { "X-User": "u" } },
    spellings: [
      ["64500", "u"],
      ["AS64500", "u"],
    ],
  },
  {
    key: ["country", "header:x-user"],
    init: at({ country: "DE" }),
    spellings: [["de", null]],
  },
];

const gateOf = ({ key, fields }: Pick<Row, "key" | "fields">): Admin =>
  admin({ key, denyCache: false, strategy: "fixed-window", ...fields }, { JWT_KEY: secret });

const cases = rows.map((row) => [row.key, row.spellings, row] as const);

const visit = ({ send }: Admin, { url = "/", init }: Row): Promise<number> => statusOf(send(url, init));

describe("each spelling of a key", () => {
  it.for(cases)(
    "for the key %j, rules and explanations find the key of a request by each of %j",
    async ([, spellings, row]) => {
      const gate = gateOf(row);
      const { policy, call } = gate;
      expect(await visit(gate, row)).toBe(200);
      const ids = new Set<string>();
      for (const key of spellings) {
        // oxlint-disable-next-line no-await-in-loop
        const explained = await call("POST", "/keys/explain", { policy, key });
        expect(explained.body).toMatchObject({ limits: [{ used: 1 }] });
        const rule = { policy, key, kind: "block", note: "abuse" };
        // oxlint-disable-next-line no-await-in-loop
        const made = await call("POST", "/rules", rule);
        expect(made.body).toMatchObject({ keyId: explained.body.id, state: "applied" });
        ids.add(made.body.keyId);
      }
      expect(ids.size).toBe(1);
      expect(await visit(gate, row)).toBe(403);
      expect((await call("DELETE", `/keys/${policy}/${[...ids][0]}/usage`)).status).toBe(204);
      const after = await call("POST", "/keys/explain", { policy, key: spellings.at(-1) });
      expect(after.body).toMatchObject({ limits: [{ used: 0 }] });
    },
  );

  it.for(cases.filter(([, spellings]) => !spellings.flat().includes(null)))(
    "for the key %j, all calls of /check charge the counter of the proxy by each of %j",
    async ([, spellings, row]) => {
      const gate = gateOf({ ...row, fields: { ...row.fields, limits: "99/hour" } });
      let remaining = 99;
      const left = (): object => ({ limits: [{ remaining: --remaining }] });
      expect(await visit(gate, row)).toBe(200);
      remaining--;
      for (const key of spellings) {
        const post = async (path: string, body: object): Promise<unknown> =>
          (await gate.check("POST", `/check${path}`, body)).json();
        // oxlint-disable-next-line no-await-in-loop
        expect(await post("", { key })).toMatchObject(left());
        // oxlint-disable-next-line no-await-in-loop
        expect(await post("/batch", { checks: [{ key }] })).toMatchObject({ results: [left()] });
        // oxlint-disable-next-line no-await-in-loop
        expect(await post("/reserve", { key, ttlMs: 60_000 })).toMatchObject(left());
      }
      const query = new URLSearchParams(spellings.flatMap(keyFields).slice(0, partsIn(row)));
      expect((await gate.check("DELETE", `/check?${query.toString()}`)).status).toBe(204);
      const last = new URLSearchParams(spellings.flatMap(keyFields).slice(-partsIn(row)));
      const look = await gate.check("GET", `/check?${last.toString()}`);
      expect(await look.json()).toMatchObject({ limits: [{ remaining: 99 }] });
    },
  );

  it("the attributes of a check may spell the values of its key in any way", async () => {
    const { check } = gateOf({ key: ["asn", "country", "host"] });
    const body = {
      key: ["AS13335", "de", "bücher.example:80"],
      attributes: { asn: 13_335, country: "DE", host: "xn--bcher-kva.example" },
    };
    expect((await check("POST", "/check", body)).status).toBe(200);
  });

  it("/check/forward counts all spellings of a location as one key", async () => {
    const gate = gateOf({ key: "country" });
    const forward = (country: string): Promise<number> => {
      const query = new URLSearchParams({ attributes: JSON.stringify({ country }) });
      const headers = {
        "X-Headgate-Token": "the-tests-token",
        "X-Forwarded-Method": "GET",
        "X-Forwarded-Uri": "/",
      };
      return statusOf(gate.send(`/check/forward?${query.toString()}`, { headers }));
    };
    expect([await forward("de"), await forward("DE")]).toEqual([204, 204]);
    const look = await gate.check("GET", "/check?key=De");
    expect(await look.json()).toMatchObject({ limits: [{ remaining: 3 }] });
  });

  it("wildcards in entries for a location match every spelling of it", async () => {
    const german = at({ country: "DE", asn: 13_335 });
    for (const [key, entry] of [
      ["country", "d*"],
      ["asn", "AS133*"],
    ] as const) {
      const { send } = gateOf({ key, fields: { deny: [entry] } });
      // oxlint-disable-next-line no-await-in-loop
      expect([entry, await statusOf(send("/", german))]).toEqual([entry, 403]);
    }
  });
});

describe("a deny rule of a policy with a key of several parts", () => {
  it("an entry of a deny rule may have a list of texts, one for each part of the key, in any spelling", async () => {
    const { call, send, policy } = admin({ key: ["asn", "country"] });
    const rule = { policy, kind: "deny", entries: [["AS13335", "de"]], note: "abuse" };
    expect((await call("POST", "/rules", rule)).status).toBe(201);
    expect(await statusOf(send("/", at({ asn: 13_335, country: "DE" })))).toBe(403);
  });
});

describe("a rule for a key that no request can have", () => {
  it.for<[string | string[], readonly (readonly [key: Key, field?: string])[]]>([
    ["header:x-user", [[" abc"], ["abc\t"], ["a,b"], ["a\0b"], ["a\nb"], ["a\u007fb"]]],
    ["cookie:sid", [["a,b"]]],
    ["jwt:sub", [["user-*"]]],
    ["asn", [["cloudflare"], ["ASX"], ["-1"], ["13335.0"], ["4294967296"], ["133*"], [" 1"]]],
    ["country", [["DEU"], ["D"], [" DE"], ["*"], ["Germany"]]],
    ["continent", [["Europe"]]],
    ["colo", [["FR"], ["FRA1"]]],
    ["method", [["GET /"], [" get"], [[null]]]],
    ["host", [["https://api.example"], ["api.example/x"], ["a b"], ["user@api.example"], [[null]]]],
    ["ip", [["203.0.113.0/24"], ["203.0.113.*"], ["2001:db8::/32"], ["somebody"]]],
    ["ip", [["2001:db8::/64 zone.example"], [["203.0.113.7", "x"]], [" 203.0.113.7"]]],
    [
      ["ip", "asn"],
      [[["203.0.113.7"]], [["203.0.113.7", "ASX"], "key[1]"]],
    ],
    [["ip", "path"], [[["203.0.113.7", null], "key[1]"]]],
    ["global", [["everybody"]]],
    [["country", "global"], [[["de", "x"], "key[1]"]]],
  ])("a rule of a policy with the key %j refuses each key of %j", async ([parts, refused]) => {
    const { call, policy } = admin({ key: parts }, { JWT_KEY: secret });
    for (const [key, field = "key"] of refused) {
      // oxlint-disable-next-line no-await-in-loop
      const answer = await call("POST", "/rules", { policy, key, kind: "allow" });
      expect([key, fieldsOf(answer)]).toEqual([key, [field]]);
    }
    const list = await call("GET", `/rules?policy=${policy}`);
    expect(list.body.rules).toEqual([]);
  });

  it.for<[Row["key"], object, accepted: readonly Key[], refused: readonly Key[]]>([
    ["path", { path: "/API/*" }, ["/api", "/API/Users", "/x/../api/a", "/api%2Fb"], ["/other", "/", "/apis"]],
    ["path", { path: "/u/:id/x" }, ["/u/7/x", "/u/a%2Fb/x", "/u/a/b/x"], ["/u/7/y", "/v/7/x"]],
    ["path", { path: "/u/:id" }, ["/u/7", "/u"], ["/user", "/other"]],
    ["path", { path: "/Adm", pathMatching: "exact" }, ["/Adm", "/adm"], ["/other"]],
    ["method", { methods: ["GET", "post"] }, ["GET", "head", "POST"], ["PUT"]],
    ["method", { methods: "POST" }, ["POST"], ["GET", "HEAD"]],
    ["host", { host: "*.example.com" }, ["a.example.com", "A.example.com.:8443"], ["example.com"]],
    ["host", { host: "API.example.com" }, ["api.example.com"], ["www.example.com"]],
    ["country", { path: "/api/*", methods: "POST" }, ["DE"], []],
  ])(
    "a rule of a policy with the key %j and the match %j accepts keys of requests that it matches, and no other",
    async ([key, match, accepted, refused]) => {
      const { call, policy } = admin({ key, match });
      const ruleFor = (each: Key) => call("POST", "/rules", { policy, key: each, kind: "block", note: "abuse" });
      for (const each of accepted) {
        // oxlint-disable-next-line no-await-in-loop
        expect([each, (await ruleFor(each)).status]).toEqual([each, 201]);
      }
      for (const each of refused) {
        // oxlint-disable-next-line no-await-in-loop
        expect([each, fieldsOf(await ruleFor(each))]).toEqual([each, ["key"]]);
      }
    },
  );

  it("a rule can block the key of a request with an escaped slash, although the policy does not match the decoded path", async () => {
    const { call, send, policy } = admin({ key: "path", match: { path: "/u/:id" } });
    for (const [url, key] of [
      ["/u/%2F", "/u"],
      ["/u/a%2Fb", "/u/a/b"],
    ] as const) {
      // oxlint-disable-next-line no-await-in-loop
      const statuses = [await statusOf(send(url)), await statusOf(send(key))];
      // oxlint-disable-next-line no-await-in-loop
      const made = await call("POST", "/rules", { policy, key, kind: "block", note: "abuse" });
      // oxlint-disable-next-line no-await-in-loop
      statuses.push(made.status, await statusOf(send(url)), await statusOf(send(key)));
      expect([url, statuses]).toEqual([url, [200, 200, 201, 403, 200]]);
    }
  });

  it("the problem of a key that the policy does not match names the field of match", async () => {
    const match = { path: "/API/:id", methods: ["GET", "PUT"], host: "*.example" };
    const { call, policy } = admin({ key: ["path", "method", "host"], match });
    const key = ["/other", "POST", "a.test"];
    const refused = await call("POST", "/rules", { policy, key, kind: "allow" });
    expect(refused.body.errors.map(({ accepted }: { accepted: string }) => accepted)).toEqual([
      'a path that match.path ("/API/:id") matches for path, got "/other"; or the id of the key',
      'a method in match.methods (GET, PUT) for method, got "POST"; or the id of the key',
      'a host that match.host ("*.example") matches for host, got "a.test"; or the id of the key',
    ]);
  });

  it("the problem of a key that no request can have names the field, the value and what is accepted", async () => {
    const { call, policy } = admin({ key: ["country", "asn"] });
    const refused = await call("POST", "/rules", { policy, key: ["DEU", "ASX"], kind: "allow" });
    expect(refused.body.errors).toEqual([
      {
        field: "key[0]",
        accepted: 'a code of two letters such as "DE" for country, got "DEU"; or the id of the key',
      },
      {
        field: "key[1]",
        accepted: 'an AS number such as "13335" or "AS13335" for asn, got "ASX"; or the id of the key',
      },
    ]);
  });

  it("a rule for a key that only callers of /check can send must name the key by its id", async () => {
    const { call, check, policy } = admin({ key: "header:x-user" });
    const { body } = await call("POST", "/keys/explain", { policy, key: "Doe, Jane" });
    const rule = { policy, id: body.id, kind: "block", note: "abuse" };
    expect((await call("POST", "/rules", rule)).status).toBe(201);
    const denied = await check("POST", "/check", { key: "Doe, Jane" });
    expect(await denied.json()).toMatchObject({ allowed: false, reason: "deny" });
  });

  it("a rule of a policy rejects entries with a location that no request can have", async () => {
    const { call, policy } = admin({ key: ["asn", "header:x-user"] });
    const limits = "9/hour";
    for (const [rule, field] of [
      [
        {
          kind: "deny",
          entries: [
            ["1", "a"],
            ["ASX", "a"],
          ],
        },
        "entries[1]",
      ],
      [{ kind: "allow", entries: [["cloudflare", "a"]] }, "entries[0]"],
      [{ kind: "overrides", overrides: [{ key: ["-1", "a"], limits }] }, "overrides[0]"],
      [{ kind: "overrides", overrides: [{ when: "country=DEU", limits }] }, "overrides[0]"],
    ] as const) {
      // oxlint-disable-next-line no-await-in-loop
      const refused = await call("POST", "/rules", {
        policy,
        scope: "policy",
        note: "abuse",
        ...rule,
      });
      expect([rule.kind, fieldsOf(refused)]).toEqual([rule.kind, [field]]);
    }
    const entries = [["AS133*", "a"], ["*", "b,c"], "203.0.113.0/24"];
    const made = await call("POST", "/rules", { policy, kind: "deny", entries, note: "abuse" });
    expect(made.status).toBe(201);
  });
});
