/** Bodies below `/check` of exactly as many bytes as they may have, and of one more. */
import { describe, expect, it } from "vitest";
import { headgate, statusOf, token } from "../harness.ts";

const gate = headgate({ POLICIES: [{ name: "p", limits: "500/hour" }] });

/** Valid JSON of so many bytes in ASCII. */
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

const post = (path: string, body: BodyInit, length: Record<string, string>): Promise<number> =>
  statusOf(
    gate.send(path, {
      method: "POST",
      headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json", ...length },
      body,
    }),
  );

describe.each([
  ["/check", '{"key":"203.0.113.7"}', 16_384],
  ["/check/reserve", '{"key":"203.0.113.8","ttlMs":1000}', 16_384],
  ["/check/settle", '{"id":"x","cost":1}', 16_384],
  ["/check/batch", '{"checks":[{"key":"203.0.113.9"}]}', 131_072],
])("a body of %s", (path, json, mostBytes) => {
  it.each([
    ["states its length", (text: string) => text, true],
    ["does not state its length", (text: string) => text, false],
    ["comes in chunks", chunked, false],
    ["comes in chunks and states its length", chunked, true],
  ] as const)("that %s may have exactly its most bytes", async (_how, bodyOf, isStated) => {
    const statuses = [mostBytes - 1, mostBytes, mostBytes + 1].map(async (sizeBytes) =>
      post(
        path,
        bodyOf(jsonOf(json, sizeBytes)),
        isStated ? { "Content-Length": String(sizeBytes) } : {},
      ),
    );
    expect(await Promise.all(statuses)).toEqual([200, 200, 413]);
  });

  it("that states a greater length than it has is refused for what it states", async () => {
    const length = { "Content-Length": String(mostBytes + 1) };
    expect(await post(path, json, length)).toBe(413);
  });
});
