/** The bounds on bodies of `/check`: the nesting depth of JSON and the number of bytes. */
import { describe, expect, it } from "vitest";
import { headgate, statusOf, token } from "../harness.ts";

const nested = (depth: number): string => `${"[".repeat(depth)}${"]".repeat(depth)}`;
const POLICIES = [{ name: "p", limits: "500/hour" }];
const gate = headgate({ POLICIES });

const post = (path: string, body: BodyInit, length: Record<string, string> = {}): Promise<Response> =>
  gate.send(path, {
    method: "POST",
    headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json", ...length },
    body,
  });

describe("a body that is nested deeper than 64 levels", () => {
  const bodies: [path: string, body: string][] = [
    ["/check/batch", `{"checks":${nested(64)}}`],
    ["/check/batch", '{"checks":['.repeat(1_000)],
    ["/check/batch", `{"checks":[${'{"checks":['.repeat(1_000)}${"]}".repeat(1_000)}]}`],
    ["/check", `{"key":"203.0.113.7","limits":${nested(7_000)}}`],
    ["/check", `{"key":${nested(7_000)}}`],
    ["/check", nested(8_000)],
    ["/check/reserve", `{"key":"203.0.113.7","ttlMs":${nested(64)}}`],
    ["/check/settle", `{"id":${nested(64)},"cost":1}`],
  ];

  it.each(bodies.map(([path, body]) => [path, body.length, body] as const))(
    "JSON nested deeper than 64 levels is answered with 400: a body of %s with %i characters",
    async (path, _length, body) => {
      const response = await post(path, body);
      expect([response.status, response.headers.get("Content-Type")]).toEqual([400, "application/problem+json"]);
      const { title, detail } = await response.json<{ title: string; detail: string }>();
      expect(title).toBe("Bad Request");
      expect(detail).toMatch(/^The JSON in the body is nested deeper than 64 levels at character \d+\.$/);
    },
  );

  it("JSON nested 64 levels deep is accepted", async () => {
    expect(await statusOf(post("/check/batch", `{"checks":${nested(63)}}`))).toBe(422);
  });

  it("brackets inside JSON strings do not count as nesting", async () => {
    const key = "[".repeat(500);
    const { check } = headgate({ POLICIES: [{ ...POLICIES[0], key: "header:x" }] });
    expect(await statusOf(check("POST", "/check", { key }))).toBe(200);
  });
});

it.each(["", "/forward"])(
  "attributes nested deeper than 64 levels in the query of GET /check%s are answered with 400",
  async (path) => {
    const attributes = `{"country":${nested(2_000)}}`;
    const query = new URLSearchParams({ ...(path === "" && { key: "203.0.113.7" }), attributes });
    const response = await gate.check("GET", `/check${path}?${query.toString()}`);
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      detail: "The JSON in the query is nested deeper than 64 levels at character 75.",
    });
  },
);

it.each([
  ["POLICIES", nested(2_000)],
  ["LIMITS", nested(2_000)],
  ["KEY", nested(2_000)],
  ["CHECK_TOKENS", nested(2_000)],
  ["JWT_KEY", '{"kty":'.repeat(500)],
  ["CORS_ORIGINS", nested(2_000)],
])("JSON nested too deep in the variable %s is reported as a problem of that variable", async (name, text) => {
  const broken = headgate({
    LIMITS: "5/hour",
    ...(name === "POLICIES" && { LIMITS: "" }),
    [name]: text,
  });
  const response = await broken.send("/");
  expect(response.status).toBe(500);
  const { errors } = await response.json<{ errors: { variable: string }[] }>();
  expect(errors.map(({ variable }) => variable)).toContain(name);
});

/** Pads JSON to a size. */
const jsonOf = (text: string, sizeBytes: number): string => text.padEnd(sizeBytes, " ");

const chunked = (text: string): ReadableStream<Uint8Array> =>
  new ReadableStream({
    start(controller) {
      const bytes = new TextEncoder().encode(text);
      for (let at = 0; at < bytes.length; at += 1_000) {
        controller.enqueue(bytes.slice(at, at + 1_000));
      }
      controller.close();
    },
  });

describe.each([
  ["/check", '{"key":"203.0.113.7"}', 16_384],
  ["/check/reserve", '{"key":"203.0.113.8","ttlMs":1000}', 16_384],
  ["/check/settle", '{"id":"x","cost":1}', 16_384],
  ["/check/batch", '{"checks":[{"key":"203.0.113.9"}]}', 131_072],
])("the size of a body of %s", (path, json, mostBytes) => {
  it.each([
    ["states its length", (text: string) => text, true],
    ["does not state its length", (text: string) => text, false],
    ["comes in chunks", chunked, false],
    ["comes in chunks and states its length", chunked, true],
  ] as const)(`a body of ${path} that %s is accepted up to its exact bound`, async (_how, bodyOf, isStated) => {
    const statuses = [mostBytes - 1, mostBytes, mostBytes + 1].map(async (sizeBytes) =>
      statusOf(post(path, bodyOf(jsonOf(json, sizeBytes)), isStated ? { "Content-Length": String(sizeBytes) } : {})),
    );
    expect(await Promise.all(statuses)).toEqual([200, 200, 413]);
  });

  it(`a body of ${path} is rejected for a Content-Length above its bound`, async () => {
    const length = { "Content-Length": String(mostBytes + 1) };
    expect(await statusOf(post(path, json, length))).toBe(413);
  });
});
