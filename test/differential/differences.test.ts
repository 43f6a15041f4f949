/**
 * Tests of the comparison: it finds a difference in each part of an answer, and no difference between two replays of
 * one version.
 */
import { beforeAll, expect, it } from "vitest";
import type { RecordedRequest, Target } from "./replay.ts";
import { provideWorkerdGlobals } from "./node-platform.ts";
import { compare, currentVersion, previousVersion } from "./targets.ts";

beforeAll(provideWorkerdGlobals);

const variables = {
  ORIGIN: "https://origin.example",
  CHECK_TOKENS: "a-token-of-these-tests",
  KEY_SECRET: "a secret of more than thirty-two characters",
  POLICIES: [{ name: "p", key: "global", limits: "2/minute", strategy: "fixed-window" }],
};
const startMs = Date.UTC(2100, 0, 1);
const requestAt = (atMs: number, path = "/"): RecordedRequest => ({
  atMs: startMs + atMs,
  variables,
  url: `https://headgate.example${path}`,
  init: {},
});
const requests = [0, 1, 2, 60_000].map((atMs) => requestAt(atMs));
const origin = async (request: Request): Promise<Response> => new Response(`at ${request.url}`);
const differences = async (...given: Parameters<typeof compare>): Promise<readonly string[]> =>
  (await compare(...given)).differences;

/** The previous version with altered responses. */
const changing = (change: (response: Response) => Response | Promise<Response>): Target => ({
  ...previousVersion,
  handlerOf: (env) => {
    const fetch = previousVersion.handlerOf(env);
    return async (...call) => change(await fetch(...call));
  },
});

it("the comparison finds no difference between two replays of one version", async () => {
  expect(await differences(requests, origin, [previousVersion])).toEqual([]);
});

it.for<[string, (response: Response) => Response | Promise<Response>]>([
  ["status", ({ body, headers }) => new Response(body, { status: 418, headers })],
  ["field", ({ body, status }) => new Response(body, { status, headers: { "X-New": "1" } })],
  ["body", async (response) => new Response(`${await response.text()} `, response)],
])("a changed %s is found in every response", async ([, change]) => {
  expect(await differences(requests, origin, [changing(change)])).toHaveLength(requests.length);
});

it("the comparison finds a changed log line and a changed request to the origin", async () => {
  const logging = changing((response) => {
    console.log("one more line");
    return response;
  });
  const asking = changing(async (response) => {
    await fetch("https://origin.example/more");
    return response;
  });
  for (const target of [logging, asking]) {
    // oxlint-disable-next-line no-await-in-loop
    expect(await differences(requests, origin, [target])).toHaveLength(requests.length);
  }
});

it("the comparison finds a double charge, because later requests get other responses", async () => {
  const twice: Target = {
    ...currentVersion,
    handlerOf: (env) => {
      const fetch = currentVersion.handlerOf(env);
      return async (...call) => {
        await fetch(...call);
        return fetch(...call);
      };
    },
  };
  expect(await differences(requests, origin, [twice])).not.toEqual([]);
});

it("when a replay repeats a settlement, it settles its own reservation instead of the recorded one", async () => {
  const headers = {
    Authorization: "Bearer a-token-of-these-tests",
    "Content-Type": "application/json",
  };
  const call = (path: string, body: object): RecordedRequest => ({
    ...requestAt(0, `/check${path}`),
    init: { method: "POST", headers, body: JSON.stringify(body) },
  });
  const reserved = call("/reserve", { policy: "p", cost: 2, ttlMs: 60_000 });
  reserved.response = { body: '{"id":"recorded-id"}', etag: null };
  const settled: unknown[] = [];
  const noting = changing(async (response) => {
    const text = await response.clone().text();
    settled.push((JSON.parse(text) as { settled?: boolean }).settled);
    return response;
  });
  const all = [reserved, call("/settle", { id: "recorded-id", cost: 0 })];
  expect(await differences(all, origin, [noting, currentVersion])).toEqual([]);
  expect(settled).toEqual([undefined, true]);
});
