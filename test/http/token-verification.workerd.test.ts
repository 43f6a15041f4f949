import {
  exportJWK,
  exportSPKI,
  generateKeyPair,
  type GenerateKeyPairResult,
  type JWTPayload,
  SignJWT,
  UnsecuredJWT,
} from "jose";
import { afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { from, headgate, type Headgate, statusOf } from "./harness.ts";

const secret = "a secret of at least thirty-two bytes";
const utf8 = new TextEncoder();
const policy = { name: "users", key: "jwt:sub", limits: "1/hour", strategy: "fixed-window" };

let rsa: GenerateKeyPairResult;
let ec: GenerateKeyPairResult;
let otherEc: GenerateKeyPairResult;

beforeAll(async () => {
  rsa = await generateKeyPair("RS256", { extractable: true });
  ec = await generateKeyPair("ES256", { extractable: true });
  otherEc = await generateKeyPair("ES256", { extractable: true });
});

afterEach(() => {
  vi.restoreAllMocks();
});

interface Signing {
  readonly alg: string;
  readonly key: CryptoKey | Uint8Array;
  readonly kid?: string;
}

const hs256 = (text = secret): Signing => ({ alg: "HS256", key: utf8.encode(text) });
const es256 = (pair = ec): Signing => ({ alg: "ES256", key: pair.privateKey });

/** A signed token. It expires in a minute unless the claims contain `exp` or `nbf`. */
const signed = ({ key, ...header }: Signing, claims: JWTPayload): Promise<string> =>
  new SignJWT({ ...("exp" in claims || "nbf" in claims ? {} : { exp: inSeconds(60) }), ...claims })
    .setProtectedHeader(header)
    .sign(key);

const inSeconds = (seconds: number): number => Math.floor(Date.now() / 1000) + seconds;

const withToken = (token: string, scheme = "Bearer"): { headers: Record<string, string> } => ({
  headers: { Authorization: `${scheme} ${token}` },
});

/** The statuses of successive requests with these tokens; null sends no token. */
async function statusesOf({ send }: Headgate, tokens: readonly (string | null)[]) {
  const statuses = [];
  for (const token of tokens) {
    // oxlint-disable-next-line no-await-in-loop
    statuses.push(await statusOf(send("/", token === null ? {} : withToken(token))));
  }
  return statuses;
}

/** Whether each of these tokens is verified, since a request without a verified `sub` is denied. */
async function areVerified(variables: object, tokens: readonly string[]): Promise<boolean[]> {
  const own = headgate({
    POLICIES: [{ ...policy, limits: "100/hour", onMissingKey: "deny" }],
    ...variables,
  });
  return (await statusesOf(own, tokens)).map((status) => status === 200);
}

describe("a key by claim", () => {
  it("each verified user has its own limit, and requests without a valid token share one limit", async () => {
    const gate = headgate({ POLICIES: [policy], JWT_KEY: secret });
    const ann = await signed(hs256(), { sub: "ann" });
    const annLater = await signed(hs256(), { sub: "ann", exp: inSeconds(90) });
    const bob = await signed(hs256(), { sub: "bob" });
    const noSubject = await signed(hs256(), {});
    const forged = await signed(hs256("another secret, thirty-two bytes long"), { sub: "eve" });
    const tokens = [ann, bob, annLater, noSubject, forged, null, "nonsense"];
    expect(await statusesOf(gate, tokens)).toEqual([200, 200, 429, 200, 429, 429, 429]);
  });

  it("claims that are texts, numbers or booleans are key values; lists, objects and absent claims are missing", async () => {
    const gate = headgate({ POLICIES: [{ ...policy, key: "jwt:org" }], JWT_KEY: secret });
    const tokens = [{ org: 7 }, { org: "7" }, { org: true }, { org: ["7"] }, { org: { id: 7 } }, {}];
    const signedTokens = await Promise.all(tokens.map((claims) => signed(hs256(), claims)));
    expect(await statusesOf(gate, signedTokens)).toEqual([200, 429, 200, 200, 429, 429]);
  });

  it("a check that names the value of a claim charges the same counter as the proxy", async () => {
    const { send, check } = headgate({ POLICIES: [policy], JWT_KEY: secret });
    await statusOf(send("/", withToken(await signed(hs256(), { sub: "ann" }))));
    const look = await check("GET", "/check?key=ann");
    expect(await look.json()).toMatchObject({ limits: [{ remaining: 0 }] });
  });

  it("a token is verified once for all policies, and never when no policy uses claims", async () => {
    const verify = vi.spyOn(crypto.subtle, "verify");
    const { send } = headgate({
      POLICIES: [
        { ...policy, match: { path: "/users" } },
        { ...policy, name: "orgs", key: ["jwt:org", "jwt:sub"], match: { path: "/users" } },
      ],
      JWT_KEY: secret,
    });
    const token = withToken(await signed(hs256(), { sub: "ann", org: 1 }));
    await statusOf(send("/users", token));
    expect(verify).toHaveBeenCalledTimes(1);
    await statusOf(send("/others", token));
    expect(verify).toHaveBeenCalledTimes(1);
  });
});

describe("a token", () => {
  it("a token is read only from a single Authorization field with the scheme Bearer, in any case", async () => {
    const { send } = headgate({
      POLICIES: [{ ...policy, limits: "9/hour", onMissingKey: "deny" }],
      JWT_KEY: secret,
    });
    const token = await signed(hs256(), { sub: "ann" });
    const statuses = await Promise.all(
      [
        withToken(token),
        withToken(token, "bearer"),
        withToken(token, "Basic"),
        withToken(`${token}, Bearer ${token}`),
        withToken(""),
        { headers: { Cookie: `token=${token}` } },
      ].map((init) => statusOf(send(`/?access_token=${token}`, init))),
    );
    expect(statuses).toEqual([200, 200, 403, 403, 403, 403]);
  });

  it("a token is valid only between nbf and exp", async () => {
    const times: JWTPayload[] = [
      { exp: inSeconds(-1) },
      { exp: inSeconds(60) },
      { nbf: inSeconds(60) },
      { nbf: inSeconds(-1) },
    ];
    const tokens = times.map((each) => signed(hs256(), { sub: "ann", ...each }));
    const verified = await areVerified({ JWT_KEY: secret }, await Promise.all(tokens));
    expect(verified).toEqual([false, true, false, true]);
  });

  it("a token is valid only if its issuer is in JWT_ISSUER and its audience in JWT_AUDIENCE", async () => {
    const variables = {
      JWT_KEY: secret,
      JWT_ISSUER: "https://id.example.com/",
      JWT_AUDIENCE: '["api", "admin"]',
    };
    const iss = "https://id.example.com/";
    const tokens = [
      { iss, aud: "api" },
      { iss, aud: ["other", "admin"] },
      { iss, aud: "other" },
      { iss },
      { aud: "api" },
      { iss: "https://id.example.com", aud: "api" },
    ].map((claims) => signed(hs256(), { sub: "ann", ...claims }));
    expect(await areVerified(variables, await Promise.all(tokens))).toEqual([true, true, false, false, false, false]);
  });

  it("a public key as PEM or JWK verifies only tokens of its own algorithm", async () => {
    const claims = { sub: "ann" };
    const pem = await exportSPKI(rsa.publicKey);
    const none = new UnsecuredJWT({ ...claims, exp: inSeconds(60) }).encode();
    const tokens = [
      await signed({ alg: "RS256", key: rsa.privateKey }, claims),
      await signed(es256(), claims),
      await signed(es256(otherEc), claims),
      // The public key as an HS256 secret, as PEM and as JWK.
      await signed(hs256(pem), claims),
      await signed(hs256(JSON.stringify(await exportJWK(ec.publicKey))), claims),
      none,
      `${none}AAAA`,
    ];
    const allFalse = [false, false, false, false, false];
    const byRsa = [true, false, ...allFalse];
    const byEc = [false, true, ...allFalse];
    expect(await areVerified({ JWT_KEY: pem }, tokens)).toEqual(byRsa);
    expect(await areVerified({ JWT_KEY: await exportJWK(rsa.publicKey) }, tokens)).toEqual(byRsa);
    expect(await areVerified({ JWT_KEY: await exportSPKI(ec.publicKey) }, tokens)).toEqual(byEc);
    const jwk = JSON.stringify({ ...(await exportJWK(ec.publicKey)), alg: "ES256", use: "sig" });
    expect(await areVerified({ JWT_KEY: jwk }, tokens)).toEqual(byEc);
    expect(await areVerified({ JWT_KEY: secret }, tokens)).toEqual([false, false, ...allFalse]);
  });

  it("a malformed token counts as missing and is not logged", async () => {
    const good = await signed(hs256(), { sub: "ann" });
    const [header = "", payload = "", signature = ""] = good.split(".");
    const malformed = [
      ".",
      "..",
      "...",
      `${header}.${payload}`,
      `${header}.${payload}.`,
      `${header}.${payload}.${signature}.x`,
      `${header}.${payload}x.${signature}`,
      `${header}.${payload}.${signature.slice(1)}`,
      `${btoa('{"alg":"HS256","crit":["x"],"x":1}')}.${payload}.${signature}`,
      `${btoa("[]")}.${payload}.${signature}`,
      `${btoa("null")}.${btoa("null")}.${signature}`,
      `${"a".repeat(50_000)}.b.c`,
      "%00.%ff.ü",
    ];
    const errors = vi.spyOn(console, "error");
    expect(await areVerified({ JWT_KEY: secret }, malformed)).toEqual(malformed.map(() => false));
    expect(errors).not.toHaveBeenCalled();
  });

  it("K08: no response and no log line contains a token, its claims or the secret", async () => {
    const logs = (["log", "warn", "error"] as const).map((level) =>
      vi.spyOn(console, level).mockReturnValue(undefined),
    );
    const { send } = headgate({
      POLICIES: [{ ...policy, key: ["jwt:sub", "jwt:org"], onMissingKey: "deny" }],
      JWT_KEY: secret,
    });
    const token = await signed(hs256(), { sub: "canary-sub" });
    const response = await send("/", {
      headers: { ...withToken(token).headers, ...from("192.0.2.1").headers },
    });
    const outputs = [await response.text(), JSON.stringify([...response.headers])];
    outputs.push(JSON.stringify(logs.flatMap((log) => log.mock.calls)));
    expect(response.status).toBe(403);
    expect(outputs[0]).toContain('"missing_parts":["jwt:org"]');
    for (const each of [token, "canary-sub", secret]) expect(outputs.join("\n")).not.toContain(each);
  });
});

describe("JWT_JWKS_URL", () => {
  /** A URL at which the test origin answers with this key set. */
  const keySetUrl = (set: unknown, status = 200): string =>
    `https://id.example/jwks?${new URLSearchParams({
      set: typeof set === "string" ? set : JSON.stringify(set),
      status: String(status),
    }).toString()}`;

  const jwk = async (pair: GenerateKeyPairResult, kid?: string): Promise<object> => ({
    ...(await exportJWK(pair.publicKey)),
    ...(kid !== undefined && { kid }),
  });

  it("the key set is fetched once; a token is verified with the key of its kid, or without a kid with any key", async () => {
    const fetches = vi.spyOn(globalThis, "fetch");
    const keys = [await jwk(rsa, "a"), await jwk(ec, "b"), await jwk(otherEc, "c")];
    const claims = { sub: "ann" };
    const tokens = await Promise.all([
      signed({ alg: "RS256", key: rsa.privateKey, kid: "a" }, claims),
      signed({ ...es256(), kid: "b" }, claims),
      signed(es256(otherEc), claims),
      signed({ ...es256(), kid: "c" }, claims),
      signed({ ...es256(), kid: "unknown" }, claims),
      signed(hs256(), claims),
      signed(es256(otherEc), { ...claims, exp: inSeconds(-1) }),
    ]);
    expect(await areVerified({ JWT_JWKS_URL: keySetUrl({ keys }) }, tokens)).toEqual([
      true,
      true,
      true,
      false,
      false,
      false,
      false,
    ]);
    const keySetFetches = fetches.mock.calls.filter(([url]) => url === keySetUrl({ keys }));
    expect(keySetFetches).toHaveLength(1);
  });

  it.for<[string, string]>([
    ["an error", keySetUrl({ keys: [] }, 500)],
    ["a redirect", keySetUrl({ keys: [] }, 302)],
    ["invalid JSON", keySetUrl("<html>")],
    ["JSON without keys", keySetUrl({ key: 1 })],
    ["no response", "https://id.example/unreachable"],
  ])("%s instead of the key set is reported once, and tokens count as missing", async ([, url]) => {
    const errors = vi.spyOn(console, "error").mockReturnValue(undefined);
    const gate = headgate({ POLICIES: [policy], JWT_JWKS_URL: url });
    const ann = await signed(es256(), { sub: "ann" });
    const bob = await signed(es256(), { sub: "bob" });
    expect(await statusesOf(gate, [ann, bob, null])).toEqual([200, 429, 429]);
    // The cooldown prevents a fetch and a log line for each request.
    expect(errors.mock.calls).toEqual([
      [expect.stringMatching(/^\{"event":"token-key-unavailable","error":"KeyUnavailable: /)],
    ]);
    expect(JSON.stringify(errors.mock.calls)).not.toContain(ann);
  });

  it("a token whose kid is not in the key set is not reported", async () => {
    const errors = vi.spyOn(console, "error");
    const url = keySetUrl({ keys: [await jwk(otherEc, "c")] });
    const token = await signed({ ...es256(), kid: "b" }, { sub: "ann" });
    expect(await areVerified({ JWT_JWKS_URL: url }, [token, token])).toEqual([false, false]);
    expect(errors).not.toHaveBeenCalled();
  });

  it("the key set is fetched again 5 seconds after a failed fetch", async () => {
    vi.spyOn(console, "error").mockReturnValue(undefined);
    const down = vi.spyOn(globalThis, "fetch").mockRejectedValueOnce(new Error("down"));
    const gate = headgate({
      POLICIES: [{ ...policy, limits: "9/hour", onMissingKey: "deny" }],
      JWT_JWKS_URL: keySetUrl({ keys: [await jwk(ec)] }),
    });
    const token = await signed(es256(), { sub: "ann" });
    expect(await statusesOf(gate, [token, token])).toEqual([403, 403]);
    expect(down).toHaveBeenCalledTimes(1);
    const now = Date.now();
    vi.spyOn(Date, "now").mockImplementation(() => now + 5_000);
    expect(await statusesOf(gate, [token])).toEqual([200]);
  });
});

describe("an invalid JWT_KEY", () => {
  it("a JWT_KEY that cannot be imported is reported, and every token counts as missing", async () => {
    const errors = vi.spyOn(console, "error").mockReturnValue(undefined);
    const x = "A".repeat(43);
    const JWT_KEY = { kty: "EC", crv: "P-256", x, y: x };
    const token = await signed(es256(), { sub: "ann" });
    expect(await areVerified({ JWT_KEY }, [token, token])).toEqual([false, false]);
    expect(errors.mock.calls).toEqual([[expect.stringContaining("token-key-unavailable")]]);
  });
});
