import { exportJWK, exportSPKI, generateKeyPair, type GenerateKeyPairResult, type JWK } from "jose";
import { beforeAll, describe, expect, it } from "vitest";
import { configOf, placesOf, problemsIn, whole } from "../parsed.ts";

let rsa: GenerateKeyPairResult;
let rsaOf1024: CryptoKeyPair;
let ec: GenerateKeyPairResult;
let rsaJwk: JWK;
let ecJwk: JWK;

beforeAll(async () => {
  rsa = await generateKeyPair("RS256", { extractable: true });
  ec = await generateKeyPair("ES256", { extractable: true });
  const algorithm = {
    name: "RSASSA-PKCS1-v1_5",
    modulusLength: 1024,
    publicExponent: new Uint8Array([1, 0, 1]),
    hash: "SHA-256",
  };
  rsaOf1024 = (await crypto.subtle.generateKey(algorithm, true, ["sign", "verify"])) as CryptoKeyPair;
  rsaJwk = await exportJWK(rsa.publicKey);
  ecJwk = await exportJWK(ec.publicKey);
});

const jwtOf = (JWT_KEY: unknown): unknown => configOf({ JWT_KEY }).jwt?.keys;

const oneLine = (pem: string): string => pem.trim().replaceAll("\n", String.raw`\n`);
const inside = (pem: string): string => pem.replaceAll(/-----[A-Z ]+-----/g, "").trim();
const base64url = (bytes: string): string => btoa(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

describe("JWT_KEY", () => {
  it("JWT_KEY accepts a PEM public key with line breaks, in one line, or without delimiters", async () => {
    for (const [pair, algorithm] of [
      [rsa, "RS256"],
      [ec, "ES256"],
    ] as const) {
      // oxlint-disable-next-line no-await-in-loop
      const pem = await exportSPKI(pair.publicKey);
      // oxlint-disable-next-line no-await-in-loop
      const spki = (await crypto.subtle.exportKey("spki", pair.publicKey)) as ArrayBuffer;
      const material = new Uint8Array(spki);
      for (const text of [pem, ` ${pem}\n`, oneLine(pem), inside(pem)]) {
        expect(jwtOf(text)).toEqual({ kind: "key", algorithm, format: "spki", material });
      }
    }
  });

  it("JWT_KEY accepts a JWK as an object or as JSON text, and keeps only the fields of the key itself", () => {
    for (const [jwk, algorithm] of [
      [rsaJwk, "RS256"],
      [ecJwk, "ES256"],
    ] as const) {
      const key = { kind: "key", algorithm, format: "jwk", material: jwk };
      const dressed = {
        ...jwk,
        alg: algorithm,
        use: "sig",
        kid: "1",
        key_ops: ["verify"],
        x5t: "a",
      };
      for (const value of [jwk, dressed, JSON.stringify(jwk), JSON.stringify(dressed, null, 2)]) {
        expect(jwtOf(value)).toEqual(key);
      }
    }
  });

  it("JWT_KEY reads all other texts, and JWKs of kty oct, as secrets", () => {
    const secret = " a secret, ünïcode and thirty-two bytes long ";
    const material = new TextEncoder().encode(secret);
    const key = { kind: "key", algorithm: "HS256" };
    expect(jwtOf(secret)).toEqual({ ...key, format: "raw", material });
    const jwk = { kty: "oct", k: base64url("x".repeat(32)) };
    expect(jwtOf(jwk)).toEqual({ ...key, format: "jwk", material: jwk });
    expect(jwtOf(JSON.stringify({ ...jwk, alg: "HS256" }))).toMatchObject(key);
  });

  /** A function, because the keys do not exist yet when the cases are listed. */
  const wrong: [string, () => unknown][] = [
    ["a number", () => 12_345],
    ["a boolean", () => true],
    ["a list", () => [rsaJwk]],
    ["a set of keys", () => ({ keys: [rsaJwk] })],
    ["a set of keys in JSON", () => JSON.stringify({ keys: [rsaJwk] })],
    ["broken JSON", () => JSON.stringify(rsaJwk).slice(0, -1)],
    ["an empty object", () => ({})],
    ["blank", () => "  \n"],
    ["a JWK of another type", () => ({ kty: "OKP", crv: "Ed25519", x: "hunter2" })],
    ["a JWK of another curve", () => ({ ...ecJwk, crv: "P-384" })],
    ["a JWK for another algorithm", () => ({ ...rsaJwk, alg: "PS256" })],
    ["an RSA key for HS256", () => ({ ...rsaJwk, alg: "HS256" })],
    ["a JWK for another use", () => ({ ...rsaJwk, use: "enc" })],
    ["a JWK with a part missing", () => ({ kty: "RSA", n: rsaJwk.n })],
    ["a JWK with a part that is none", () => ({ ...ecJwk, x: "hunter2 " })],
    ["a private JWK", () => exportJWK(ec.privateKey)],
    ["an RSA JWK of 1024 bits", () => exportJWK(rsaOf1024.publicKey)],
    ["an RSA PEM of 1024 bits", () => exportSPKI(rsaOf1024.publicKey)],
    ["a PEM that is cut off", async () => oneLine(await exportSPKI(rsa.publicKey)).slice(0, -40)],
    ["a PEM of half a key", async () => (await exportSPKI(rsa.publicKey)).replace(/\n.{60}/, "\n")],
    ["a private PEM", () => "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----"],
    ["a certificate", () => "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----"],
    ["a key of OpenSSH", () => "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQ me@host"],
    ["where keys are", () => "https://id.example.com/.well-known/jwks.json"],
  ];
  it.each(wrong)("JWT_KEY rejects %s without quoting it", async (_, make) => {
    expect(problemsIn({ ...whole, JWT_KEY: await make() })).toEqual([
      {
        variable: "JWT_KEY",
        field: "",
        value: "(hidden)",
        accepted: expect.stringMatching(/RSA .* PEM or JWK, .*HS256/),
      },
    ]);
  });

  it("a short secret in JWT_KEY gives a warning that does not quote it", () => {
    const warnings = configOf({ JWT_KEY: "hunter2" }).warnings;
    expect(warnings).toEqual([expect.stringMatching(/^JWT_KEY: .*less than 32 bytes/)]);
    expect(warnings.join("")).not.toContain("hunter2");
    expect(configOf({ JWT_KEY: "x".repeat(32) }).warnings).toEqual([]);
  });
});

describe("JWT_JWKS_URL", () => {
  it.for([
    "https://id.example.com/.well-known/jwks.json",
    "https://id.example.com/keys?policy=b2c",
    "https://id.example.com:8443/",
    "http://localhost:8080/jwks",
    "http://127.0.0.1/jwks",
    "http://[::1]:9000/jwks",
  ])("JWT_JWKS_URL accepts %s", (url) => {
    expect(configOf({ JWT_JWKS_URL: url }).jwt?.keys).toEqual({ kind: "set", url: new URL(url) });
  });

  it.for([
    "id.example.com/jwks",
    "http://id.example.com/jwks",
    "http://localhost.example.com/jwks",
    "ftp://id.example.com/jwks",
    "/.well-known/jwks.json",
    "{}",
    true,
    5,
    ["https://id.example.com/jwks"],
  ])("JWT_JWKS_URL rejects %j", (value) => {
    const accepted = expect.stringMatching(/https URL .*jwks\.json/);
    expect(problemsIn({ ...whole, JWT_JWKS_URL: value })).toEqual([
      { variable: "JWT_JWKS_URL", field: "", value, accepted },
    ]);
  });

  it("JWT_JWKS_URL is rejected, without being quoted, if it has credentials or JWT_KEY is also set", () => {
    const url = "https://user:hunter2@id.example.com/jwks";
    for (const variables of [{ JWT_JWKS_URL: url }, { JWT_JWKS_URL: url, JWT_KEY: "secret" }]) {
      const problems = problemsIn({ ...whole, ...variables });
      expect(problems).toMatchObject([{ variable: "JWT_JWKS_URL", value: "(hidden)" }]);
      expect(JSON.stringify(problems)).not.toContain("hunter2");
    }
  });
});

describe.each(["JWT_ISSUER", "JWT_AUDIENCE"])("%s", (variable) => {
  it("the variable accepts a text or a list of texts", () => {
    const read = (value: unknown): unknown => {
      const jwt = configOf({ JWT_KEY: "x".repeat(32), [variable]: value }).jwt;
      return variable === "JWT_ISSUER" ? jwt?.issuers : jwt?.audiences;
    };
    expect(read(undefined)).toBeNull();
    expect(read("https://id.example.com/")).toEqual(["https://id.example.com/"]);
    expect(read(["a", "b"])).toEqual(["a", "b"]);
    expect(read('["a", "b"]')).toEqual(["a", "b"]);
  });

  it.for<[unknown]>([[5], [true], [[]], [["a", ""]], [["a", 1]], [" "], [{ iss: "a" }]])(
    "the variable rejects %j",
    ([value]) => {
      const accepted = expect.stringContaining("a list of such texts");
      expect(problemsIn({ ...whole, [variable]: value })).toEqual([{ variable, field: "", value, accepted }]);
    },
  );
});

describe("a jwt key part without a verification key", () => {
  const claimed = { name: "a", limits: "1/s", key: ["jwt:sub"] };

  it("a jwt key part without a verification key is a problem that states its place", () => {
    const POLICIES = [claimed, { name: "b", limits: "1/s" }, { ...claimed, name: "c", limits: 0 }];
    expect(placesOf({ KEY_SECRET: "s", POLICIES })).toEqual(["POLICIES [2].limits", "JWT_KEY"]);
    expect(problemsIn({ KEY_SECRET: "s", POLICIES }).at(-1)).toEqual({
      variable: "JWT_KEY",
      field: "",
      value: undefined,
      accepted: expect.stringMatching(/JWT_JWKS_URL.*POLICIES\[0\]\.key, POLICIES\[2\]\.key$/),
    });
    expect(problemsIn({ ...whole, KEY: "ip, jwt:sub" })).toMatchObject([
      { variable: "JWT_KEY", accepted: expect.stringMatching(/ in KEY$/) },
    ]);
  });

  it("JWT_KEY or JWT_JWKS_URL removes the problem of a jwt key part", () => {
    const url = "https://id.example.com/jwks";
    expect(problemsIn({ ...whole, KEY: "jwt:sub", JWT_JWKS_URL: url })).toEqual([]);
    expect(problemsIn({ ...whole, KEY: "jwt:sub", JWT_KEY: "secret" })).toEqual([]);
    expect(placesOf({ ...whole, KEY: "jwt:sub", JWT_KEY: 5 })).toEqual(["JWT_KEY"]);
    expect(placesOf({ ...whole, KEY: "jwt:sub", JWT_JWKS_URL: "x" })).toEqual(["JWT_JWKS_URL"]);
  });
});
