/** Origins that are too slow: the client gets a 504, and the connection to the origin does not stay open. */
import { beforeAll, expect, it } from "vitest";
import { type ClientOptions, type Proxied, startProxied } from "./proxied.ts";

const policies = [
  { name: "plain", limits: "100/hour" },
  { name: "slots", limits: [{ limit: 3, window: "1h", strategy: "concurrency" }] },
];

let proxied: Proxied;
beforeAll(async () => {
  proxied = await startProxied(policies, undefined, { ORIGIN_TIMEOUT: "100ms" });
  return proxied.close;
});

it.for([
  ["plain", "of a GET request", {}],
  ["plain", "of an upload that has not ended", { method: "POST", body: "begun" }],
  ["slots", "of a request that holds a slot", {}],
] as const satisfies [string, string, ClientOptions][])(
  "the connection to an origin that does not respond in time is closed: %s, %s",
  async ([policy, request, options]) => {
    const path = `/${policy}/${request.replaceAll(" ", "-")}/`;
    const client = proxied.send(path, "k", options);
    const { ended, response } = await proxied.origin.nextExchange(path);
    expect((await client.answer).statusCode).toBe(504);
    await ended;
    expect(response.writableEnded).toBe(false);
    if (policy === "slots") await proxied.untilRemaining(policy, "k", 3);
  },
);
