/** JSON of any depth: below `/check` it is an answer of 400 that names the depth, and in a variable a problem. */
import { describe, expect, it } from "vitest";
import { headgate, statusOf, token } from "../harness.ts";

const nested = (depth: number): string => `${"[".repeat(depth)}${"]".repeat(depth)}`;
const POLICIES = [{ name: "p", limits: "5/hour" }];

async function post(path: string, body: string): Promise<Response> {
  return headgate({ POLICIES }).send(path, {
    method: "POST",
    headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
    body,
  });
}

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
    "of %s is refused with 400, %i characters long",
    async (path, _length, body) => {
      const response = await post(path, body);
      expect([response.status, response.headers.get("Content-Type")]).toEqual([
        400,
        "application/problem+json",
      ]);
      const { title, detail } = await response.json<{ title: string; detail: string }>();
      expect(title).toBe("Bad Request");
      expect(detail).toMatch(
        /^The JSON in the body is nested deeper than 64 levels at character \d+\.$/,
      );
    },
  );

  it("is as deep as it may be at 64, where its fields are what is wrong", async () => {
    expect(await statusOf(post("/check/batch", `{"checks":${nested(63)}}`))).toBe(422);
  });

  it("is read where the brackets are in a text", async () => {
    const key = "[".repeat(500);
    const { check } = headgate({ POLICIES: [{ ...POLICIES[0], key: "header:x" }] });
    expect(await statusOf(check("POST", "/check", { key }))).toBe(200);
  });
});

it.each(["", "/forward"])(
  "attributes in the query of GET /check%s that are nested deeper than 64 levels are refused with 400",
  async (path) => {
    const attributes = `{"country":${nested(2_000)}}`;
    const query = new URLSearchParams({ ...(path === "" && { key: "203.0.113.7" }), attributes });
    const { check } = headgate({ POLICIES });
    const response = await check("GET", `/check${path}?${query.toString()}`);
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
])("a variable %s of deeply nested JSON is a problem of that variable", async (name, text) => {
  const gate = headgate({
    LIMITS: "5/hour",
    ...(name === "POLICIES" && { LIMITS: "" }),
    [name]: text,
  });
  const response = await gate.send("/");
  expect(response.status).toBe(500);
  const { errors } = await response.json<{ errors: { variable: string }[] }>();
  expect(errors.map(({ variable }) => variable)).toContain(name);
});
