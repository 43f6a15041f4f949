/** Answers that do not come from Headgate: the error names the URL, what was received and what was expected. */
import { expect, it } from "vitest";
import { createClient, type HttpOptions } from "../../../src/sdk/package/client.ts";
import { allowed } from "./faulty-server.ts";

const url = "https://limits.example.com";
const html = { "Content-Type": "text/html; charset=utf-8" };
const json = { "Content-Type": "application/json" };

/** A client that gets this response to every call. */
function clientOf(status: number, headers: Record<string, string>, body: string) {
  const fetch: HttpOptions["fetch"] = async () => new Response(status === 204 ? null : body, { status, headers });
  return createClient({ url, token: "t", retries: 0, fetch });
}

const messageOf = (call: Promise<unknown>): Promise<string> =>
  call.then(
    () => "no error",
    (error: unknown) => String(error),
  );

const call = "HeadgateError: POST https://limits.example.com/check";

it.each<[string, Parameters<typeof clientOf>, string]>([
  [
    "a page",
    [200, html, "<!doctype html><title>Shop</title>"],
    `expected an answer of Headgate in JSON, got status 200 with text/html; charset=utf-8: "<!doctype html><title>Shop</title>". Verify url and path.`,
  ],
  [
    "a long page",
    [404, html, "x".repeat(5_000)],
    `expected an answer of Headgate in JSON, got status 404 with text/html; charset=utf-8: "${"x".repeat(79)}…. Verify url and path.`,
  ],
  [
    "truncated JSON",
    [200, json, allowed.slice(0, 20)],
    `expected an answer of Headgate in JSON, got status 200 with application/json: ${JSON.stringify(allowed.slice(0, 20))}. Verify url and path.`,
  ],
  [
    "an empty response",
    [204, {}, ""],
    `expected an answer of Headgate in JSON, got status 204 with no Content-Type: "". Verify url and path.`,
  ],
  [
    "a redirect",
    [301, { Location: "https://www.example.com/check" }, ""],
    "expected an answer of Headgate, got a redirect to https://www.example.com/check",
  ],
  ["null", [200, json, "null"], "expected the answer to be an object, got null"],
  ["JSON of another API", [200, json, '{"status":"ok"}'], "expected allowed to be true or false, got undefined"],
  [
    "a decision with a field of another type",
    [200, json, allowed.replace('"retryAfterMs":0', '"retryAfterMs":"soon"')],
    'expected retryAfterMs to be a number or null, got "soon"',
  ],
  [
    "a decision with a list of other values",
    [200, json, allowed.replace('"limits":[]', '"limits":[7]')],
    "expected limits to be a list, each entry an object, got [7]",
  ],
])("a client that gets %s explains what it expected", async (_, response, message) => {
  expect(await messageOf(clientOf(...response).check({ key: "k" }))).toBe(`${call}: ${message}`);
});

it.each<[string, string]>([
  ['{"results":{}}', "expected results to be a list, each entry an object, got {}"],
  [`{"results":[${allowed},{"allowed":1}]}`, "expected results[1].allowed to be true or false, got 1"],
  ['{"results":[{"problem":{"title":"T"}}]}', "expected results[0].problem.detail to be a text, got undefined"],
])("a batch with the answer %s names the field that is wrong", async (body, message) => {
  const batching = clientOf(200, json, body).batch({ checks: [{ key: "k" }] });
  expect(await messageOf(batching)).toBe(`${call}/batch: ${message}`);
});

it("for every operation, the error names the field that is wrong in the answer", async () => {
  const other = clientOf(200, json, allowed);
  expect(await messageOf(other.reserve({ key: "k", ttlMs: 1_000 }))).toBe(
    `${call}/reserve: expected id to be a text or null, got undefined`,
  );
  expect(await messageOf(other.settle({ id: "i", cost: 1 }))).toBe(
    `${call}/settle: expected settled to be true or false, got undefined`,
  );
  expect(await messageOf(other.forget({ key: "secret" }))).toMatch(
    /^HeadgateError: DELETE https:\/\/limits\.example\.com\/check: expected .* got status 200 with application\/json/,
  );
});

it("unknown fields and reasons of a newer Headgate are accepted", async () => {
  const newer = allowed.replace('"reason":"limit"', '"reason":"weather","colour":"red"');
  expect(await clientOf(200, json, newer).look({ key: "k" })).toMatchObject({ colour: "red" });
});
