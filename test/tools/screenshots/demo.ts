/** The policies and the traffic of a shop, and the work of its operators, for the screenshots. */
import { setTimeout } from "node:timers/promises";
import type { ConsoleWorker } from "../../console/app/console-worker.ts";
import { randomFrom } from "../../random.ts";

export const shopPolicies: readonly object[] = [
  {
    name: "login",
    match: { path: "/login", methods: ["POST"] },
    key: ["ip"],
    strategy: "sliding-log",
    limits: "5/minute",
  },
  { name: "api", match: { path: "/api/*" }, key: ["ip"], limits: ["60/minute", "20/10s"] },
  { name: "search", match: { path: "/search" }, key: ["ip"], limits: "15/minute", dryRun: true },
  {
    name: "checkout",
    match: { path: "/checkout", methods: ["POST"] },
    key: ["ip"],
    strategy: "token-bucket",
    limits: "10/minute",
  },
];

/** The requests of the clients. A path that is listed more often gets more requests. */
const requests = [
  ...Array.from({ length: 8 }, () => ["GET", "/api/products"] as const),
  ...Array.from({ length: 4 }, () => ["GET", "/api/cart"] as const),
  ...Array.from({ length: 3 }, () => ["GET", "/search"] as const),
  ["POST", "/checkout"] as const,
  ["POST", "/login"] as const,
];

const clients = 60;
const attacker = "198.51.100.23";
const scraper = "198.51.100.99";
const everyMs = 100;
const random = randomFrom(7);

/** A few clients send most of the requests. */
const client = (): string => `203.0.113.${1 + Math.floor(clients * random() ** 3)}`;

/** Sends traffic that rises and falls, with attempts to log in from one address. */
export async function sendTraffic({ request }: ConsoleWorker, isOver: () => boolean): Promise<void> {
  const startedMs = performance.now();
  for (let tick = 0; !isOver(); tick++) {
    const wave = 1.5 + Math.sin(tick / 150) + 0.5 * Math.sin(tick / 37);
    const count = Math.floor(wave + random());
    const sent = Array.from({ length: count }, () => {
      const [method, path] = requests[Math.floor(requests.length * random())] ?? ["GET", "/"];
      return request(client(), path, method);
    });
    if (tick % 15 === 0) sent.push(request(attacker, "/login", "POST"));
    if (tick % 20 === 0) sent.push(request(scraper, "/api/products", "GET"));
    // oxlint-disable no-await-in-loop -- the requests of one tick are over before the next one
    await Promise.all(sent);
    await setTimeout(Math.max(0, (tick + 1) * everyMs - (performance.now() - startedMs)));
    // oxlint-enable no-await-in-loop
  }
}

/** As an operator, blocks the scraper, raises the limits of a good customer, and relaxes a policy. */
export const operatorChanges: readonly ((worker: ConsoleWorker) => Promise<unknown>)[] = [
  ({ api }) =>
    api("POST", "/rules", {
      body: {
        policy: "api",
        kind: "block",
        key: [scraper],
        for: "1h",
        note: "Scrapes the catalogue",
      },
    }),
  ({ api }) =>
    api("POST", "/rules", {
      body: {
        policy: "api",
        kind: "limits",
        key: ["203.0.113.1"],
        limits: "300/minute",
        for: "2h",
        note: "Imports its catalogue today",
      },
    }),
  async ({ api }) => {
    const { etag } = await api("GET", "/policies/checkout");
    return api("PATCH", "/policies/checkout", { etag, body: { limits: "20/minute", for: "1d" } });
  },
];
