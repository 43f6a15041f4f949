/** The request of `npm run explain`, and its error messages, against a server in this process. */
import { createServer, type IncomingMessage, type Server } from "node:http";
import { once } from "node:events";
import { afterEach, describe, expect, it } from "vitest";
import { CommandError } from "../../src/cli/command.ts";
import { explainBody, fetchExplanation, isLocalUrl, serverUrl } from "../../src/cli/admin-api.ts";

describe("the body that the options of npm run explain give", () => {
  it.each([
    [
      { policy: "login", key: ["203.0.113.7"] },
      { policy: "login", key: ["203.0.113.7"] },
    ],
    [
      { policy: "a", key: ["x", ""] },
      { policy: "a", key: ["x", null] },
    ],
    [
      { policy: "a", id: "abc" },
      { policy: "a", id: "abc" },
    ],
    [{ policy: "a" }, { policy: "a" }],
    [
      { policy: "a", key: ["x"], tenant: "t", attribute: ["country=DE"] },
      { policy: "a", key: ["x"], tenant: "t", attributes: { country: "DE" } },
    ],
    [
      { policy: "a", attribute: ["header:x=1=2", "header:x=3"] },
      { policy: "a", attributes: { "header:x": ["1=2", "3"] } },
    ],
  ])("the options %o become the request %o", (values, body) => {
    expect(explainBody(values)).toEqual(body);
  });

  it.each([
    [{ key: ["x"] }, "--policy is missing: expected the name of a policy."],
    [{ policy: "a", key: ["x"], id: "y" }, "Expected either --key or --id, got both."],
    [{ policy: "a", attribute: ["DE"] }, '--attribute: expected name=value such as country=DE, got "DE"'],
  ])("the options %o are rejected: %s", (values, message) => {
    expect(() => explainBody(values)).toThrow(new CommandError(message));
  });
});

describe("the server of npm run explain", () => {
  it.each([
    ["http://localhost:8787", true],
    ["http://admin.localhost:8787", true],
    ["http://127.0.0.1:1", true],
    ["http://[::1]:1", true],
    ["https://limits.example.com", false],
    ["https://localhost.example.com", false],
    ["http://127.0.0.1.example.com", false],
  ])("tokens of .dev.vars may be sent to %s: %s", (text, isLocal) => {
    expect(isLocalUrl(serverUrl(text))).toBe(isLocal);
  });

  it.each(["localhost:8787", "ftp://localhost", "limits"])("npm run explain rejects %s as --url", (text) => {
    expect(() => serverUrl(text)).toThrow(/^--url: expected a URL such as .*, got /);
  });
});

type Respond = (request: IncomingMessage) => readonly [status: number, type: string, body: unknown];

let server: Server | null = null;

afterEach(() => {
  server?.close();
  server = null;
});

/** Starts a server, and returns its admin API. */
async function apiThat(respond: Respond) {
  server = createServer((request, response) => {
    const [status, type, body] = respond(request);
    response.writeHead(status, { "Content-Type": type });
    response.end(typeof body === "string" ? body : JSON.stringify(body));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  return { url: `http://127.0.0.1:${port}/_headgate/api`, token: "the-token" };
}

const problem = "application/problem+json";
const body = { policy: "logn", key: ["x"] };

const messageFor = async (respond: Respond): Promise<string> => {
  const error = await fetchExplanation(await apiThat(respond), body).catch((each: unknown) => each);
  return error instanceof CommandError ? error.message : `no CommandError: ${String(error)}`;
};

describe("the answer to npm run explain", () => {
  it("npm run explain sends its token and prints the lines of the response", async () => {
    const requests: unknown[] = [];
    const api = await apiThat(({ method, url, headers }) => {
      requests.push([method, url, headers.authorization]);
      return [200, "application/json", { text: ["Allowed.", "login: 1 of 5"] }];
    });
    expect(await fetchExplanation(api, body)).toEqual(["Allowed.", "login: 1 of 5"]);
    expect(requests).toEqual([["POST", "/_headgate/api/keys/explain", "Bearer the-token"]]);
  });

  it("npm run explain reports an unknown policy with the existing policies and the closest name", async () => {
    const message = await messageFor(({ url }) =>
      url?.endsWith("/policies") === true
        ? [200, "application/json", { policies: [{ name: "login" }, { name: "search" }] }]
        : [404, problem, { status: 404, title: "Not Found", detail: "no such policy" }],
    );
    expect(message).toBe('--policy: expected one of "login", "search", got "logn"; did you mean login?');
  });

  it.each([
    [401, /^The server does not accept the token\./],
    [403, /^The token lacks the right read/],
    [404, /^no such id$/],
    [500, /^A title: no such id$/],
  ])("a problem with status %i is reported with what to do", async (status, expected) => {
    const details = { status, title: "A title", detail: "no such id" };
    expect(await messageFor(() => [status, problem, details])).toMatch(expected);
  });

  it("npm run explain names the option of each invalid field", async () => {
    const errors = [
      { field: "key", accepted: "a list of 2 texts for ip, path" },
      { field: "attributes.country", accepted: "a text" },
    ];
    expect(await messageFor(() => [422, problem, { title: "x", errors }])).toBe(
      "--key: expected a list of 2 texts for ip, path\n--attribute country: expected a text",
    );
  });

  it.each([
    [200, "text/html", "<p>the origin</p>"],
    [404, "text/html", "not here"],
    [302, "text/html", ""],
    [200, "application/json", { other: 1 }],
  ])("a response that does not come from the admin API is reported: %i %s", async (status, type, text) => {
    expect(await messageFor(() => [status, type, text])).toMatch(
      /^No admin API answers at http:.*\/_headgate\/api \(status \d+\)\. It needs ADMIN_TOKENS/,
    );
  });

  it("npm run explain says how to start a server that does not run", async () => {
    const api = await apiThat(() => [200, "text/plain", ""]);
    server?.close();
    await expect(fetchExplanation(api, body)).rejects.toThrow(
      /^No answer from http:\/\/127\.0\.0\.1:\d+: ECONNREFUSED\.\nStart Headgate with npm start/,
    );
  });
});
