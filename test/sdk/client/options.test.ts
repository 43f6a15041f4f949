/** The options of `createClient`: accepted values, and the error that lists every invalid option. */
import { describe, expect, it, vi } from "vitest";
import { createClient, type HttpOptions } from "../../../src/sdk/package/client.ts";
import { allowed } from "./faulty-server.ts";

/** Options that the types do not allow. */
const created = (options: unknown): unknown => createClient(options as HttpOptions);
const valid = { url: "https://limits.example.com", token: "t" };

const expectedUrl =
  'url: expected the http or https URL of the Worker without a path, such as "https://limits.example.com"; or service, got';
const expectedToken = "token: expected a token of CHECK_TOKENS: visible ASCII characters without spaces, got";

describe("createClient", () => {
  it.each<[unknown, string]>([
    [undefined, `${expectedUrl} undefined; ${expectedToken} undefined`],
    [{ ...valid, url: "limits.example.com" }, `${expectedUrl} "limits.example.com"`],
    [{ ...valid, url: "ftp://limits.example.com" }, `${expectedUrl} "ftp://limits.example.com"`],
    [{ ...valid, url: "https://limits.example.com/check" }, `${expectedUrl} "https://limits.example.com/check"`],
    [{ ...valid, url: "https://limits.example.com?a" }, `${expectedUrl} "https://limits.example.com?a"`],
    [{ ...valid, url: 7 }, `${expectedUrl} 7`],
    [{ ...valid, token: "" }, `${expectedToken} ""`],
    [{ ...valid, token: undefined }, `${expectedToken} undefined`],
    [{ ...valid, token: "secret\n" }, `${expectedToken} other characters`],
    [{ ...valid, token: "Bearer secret" }, `${expectedToken} other characters`],
    [{ ...valid, path: "check" }, 'path: expected the CHECK_PATH of the Worker, such as "/check", got "check"'],
    [{ ...valid, path: "/check/" }, 'path: expected the CHECK_PATH of the Worker, such as "/check", got "/check/"'],
    [{ ...valid, retries: -1 }, "retries: expected an integer from 0 to 10, got -1"],
    [{ ...valid, retries: 1.5 }, "retries: expected an integer from 0 to 10, got 1.5"],
    [{ ...valid, maxWaitMs: "1s" }, 'maxWaitMs: expected an integer from 0 to 2147483647, got "1s"'],
    [{ ...valid, timeoutMs: 0 }, "timeoutMs: expected an integer from 1 to 2147483647, got 0"],
    [{ ...valid, timeoutMs: Infinity }, "timeoutMs: expected an integer from 1 to 2147483647, got Infinity"],
    [{ ...valid, fetch: "fetch" }, 'fetch: expected a function, got "fetch"'],
    [
      { ...valid, retry: 3, retries: -1 },
      "retry: expected one of the options url, token, path, fetch, retries, maxWaitMs, timeoutMs; retries: expected an integer from 0 to 10, got -1",
    ],
    [
      { service: {}, token: "t" },
      'token: expected one of the options service, retries, maxWaitMs, timeoutMs; service: expected a service binding with entrypoint = "Headgate", got a value of type object',
    ],
  ])("createClient(%j) throws an error that names every invalid option", (options, message) => {
    expect(() => created(options)).toThrow(new TypeError(`createClient: ${message}`));
  });

  it("options that are undefined get their defaults", () => {
    const options = { path: undefined, retries: undefined, maxWaitMs: undefined, fetch: undefined };
    expect(() => createClient({ ...valid, ...options, url: new URL(valid.url) })).not.toThrow();
    expect(() => createClient({ ...valid, url: "http://localhost:8787/" })).not.toThrow();
  });

  it("a client uses the global fetch at the time of each call", async () => {
    const limiter = createClient(valid);
    const fetch = vi.spyOn(globalThis, "fetch").mockResolvedValue(new Response(allowed));
    try {
      expect(await limiter.check({ key: "k" })).toMatchObject({ allowed: true });
      expect(fetch.mock.calls[0]?.[0]).toBe("https://limits.example.com/check");
    } finally {
      fetch.mockRestore();
    }
  });

  it("a call whose argument is not an object returns a rejected promise, and does not throw", async () => {
    const limiter = createClient(valid) as unknown as { check(): Promise<unknown> };
    await expect(limiter.check()).rejects.toThrow(TypeError);
  });
});
