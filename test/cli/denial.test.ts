/** `npm run explain -- --at` and `--instance`: the search that the options give, and the lines of the answer. */
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { afterEach, describe, expect, it } from "vitest";
import { CommandError } from "../../src/cli/command.ts";
import { denialBody, fetchDenial } from "../../src/cli/denial.ts";

const nowMs = Date.UTC(2026, 10, 22, 18);

describe("the search that the options of npm run explain give", () => {
  it.each([
    [
      { key: ["203.0.113.7"], at: "10m" },
      { key: ["203.0.113.7"], at: "2026-11-22T17:50:00.000Z" },
    ],
    [
      { policy: "login", key: ["203.0.113.7"], at: "2026-11-22T17:00:00Z" },
      { policy: "login", key: ["203.0.113.7"], at: "2026-11-22T17:00:00.000Z" },
    ],
    [{ instance: "urn:uuid:1" }, { instance: "urn:uuid:1" }],
    [
      { id: "abc", at: "1h" },
      { id: "abc", at: "2026-11-22T17:00:00.000Z" },
    ],
  ])("the options %o become the search %o", (values, body) => {
    expect(JSON.parse(JSON.stringify(denialBody(values, nowMs)))).toEqual(body);
  });

  it.each([
    [{ at: "10m" }, "Expected --key, --id or --instance with --at."],
    [{ instance: "urn:uuid:1", key: ["x"] }, "Expected either --instance or a key, got both."],
    [
      { key: ["x"], at: "soon" },
      '--at: expected a duration before now such as "10m", or an instant such as "2026-11-22T18:30:00Z", got "soon"',
    ],
    [{ key: ["x"], at: "10m", attribute: ["country=DE"] }, "--attribute: expected no value with --at or --instance."],
  ])("the options %o are rejected: %s", (values, message) => {
    expect(() => denialBody(values, nowMs)).toThrow(new CommandError(message));
  });
});

let server: Server | null = null;
afterEach(() => server?.close());

async function linesOf(status: number, answer: object, body: object = { key: ["x"] }): Promise<readonly string[]> {
  server = createServer((_, response) => {
    response.writeHead(status, { "Content-Type": status === 200 ? "application/json" : "application/problem+json" });
    response.end(JSON.stringify(answer));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  return fetchDenial({ url: `http://127.0.0.1:${port}/_headgate/api`, token: "t" }, body, nowMs);
}

const log = { dropped: 0, completeSince: "2026-11-21T18:00:00.000Z", isOn: true };
const denial = {
  policy: "login",
  at: "2026-11-22T17:50:00.000Z",
  lastAt: "2026-11-22T17:51:00.000Z",
  cause: "5 of 5 per minute used; could retry after 23 s",
  count: 3,
  instance: "urn:uuid:1",
  id: "the-id",
};

describe("the answer to npm run explain with --at", () => {
  it("npm run explain prints the denial, its key, its instance and since when the log is complete", async () => {
    expect(await linesOf(200, { denial, count: 14, since: "2026-11-22T17:38:00.000Z", ...log })).toEqual([
      "Denied by login at 2026-11-22T17:50:00.000Z (10 min ago): 5 of 5 per minute used; could retry after 23 s.",
      "3 denials like this one until 2026-11-22T17:51:00.000Z.",
      "14 denials of this key since 2026-11-22T17:38:00.000Z.",
      "Key the-id.",
      "Instance urn:uuid:1.",
      "The log has every denial since 2026-11-21T18:00:00.000Z.",
    ]);
  });

  it("npm run explain says how far the denial is from the asked time, and whether the log has more of the key", async () => {
    const near = { text: "The nearest denial is 3 s after the asked time." };
    const times = { since: "2026-11-22T17:38:00.000Z", until: "2026-11-22T17:55:00.000Z" };
    const lines = await linesOf(200, { denial, count: 14, near, ...times, next: "1-2", hasNewer: true, ...log });
    expect(lines[1]).toBe(near.text);
    expect(lines[3]).toBe(
      "14 denials of this key since 2026-11-22T17:38:00.000Z until 2026-11-22T17:55:00.000Z, " +
        "and the log has earlier and later ones.",
    );
  });

  it("npm run explain lists the keys whose ids have the sought beginning, if there are several", async () => {
    const keys = [
      { policy: "api", id: "9oGwCzCPa" },
      { policy: "login", id: "9oGwCzCPb" },
    ];
    expect((await linesOf(200, { denial: null, keys, ...log }, { id: "9oGwCzCP" })).slice(0, 3)).toEqual([
      "The ids of several keys begin with 9oGwCzCP. Repeat the search with one of them:",
      "--policy api --id 9oGwCzCPa",
      "--policy login --id 9oGwCzCPb",
    ]);
  });

  it("npm run explain says how many denials the log lacks when it does not find the denial", async () => {
    expect(await linesOf(200, { denial: null, ...log, dropped: 7 })).toEqual([
      "The log has no such denial.",
      "The log lacks 7 denials of the last 24 hours. It is complete since 2026-11-21T18:00:00.000Z.",
    ]);
  });

  it("npm run explain says that denials are not logged", async () => {
    expect(await linesOf(200, { denial: null, ...log, isOn: false })).toEqual([
      'Denials are not logged: DENIALS is "off".',
    ]);
  });

  it("npm run explain names the option whose value the server refuses", async () => {
    const errors = [{ field: "key", accepted: "a key that fits the key of a policy" }];
    await expect(linesOf(422, { title: "Unprocessable Content", detail: "key", errors })).rejects.toThrow(
      "--key: expected a key that fits the key of a policy",
    );
  });
});
