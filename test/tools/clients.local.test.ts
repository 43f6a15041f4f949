import { execFile, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import axios from "axios";
import axiosRetry from "axios-retry";
import { got } from "got";
import ky from "ky";
import { Agent, request, RetryAgent } from "undici";
import { afterAll, beforeAll, describe, it } from "vitest";
import { startWorkerd, type Workerd } from "./workerd.ts";

/** An entry module that wraps Headgate and records its responses for each key. */
const listing = `
import headgate from "./index.js";
export * from "./index.js";
const answers = {};
export default {
  async fetch(request, env, ctx) {
    const key = request.headers.get("X-Api-Key");
    if (key === null) return Response.json(answers);
    const atMs = Date.now();
    const response = await headgate.fetch(request, env, ctx);
    const { status, headers } = response;
    (answers[key] ??= []).push({ atMs, status, retryAfter: headers.get("Retry-After") });
    return response;
  },
};
`;

/** An origin that answers with the number of requests that it has received for the key. */
const counting = `
const served = {};
export default {
  fetch(request) {
    const key = request.headers.get("X-Api-Key");
    served[key] = (served[key] ?? 0) + 1;
    return Response.json({ served: served[key] });
  },
};
`;

interface RecordedResponse {
  readonly atMs: number;
  readonly status: number;
  readonly retryAfter: string | null;
}

interface Served {
  readonly served: number;
}

/** The clients have their default settings, except for settings that their documentation requires for retries. */
const clients: {
  name: string;
  get: (url: URL, headers: Record<string, string>) => Promise<Served>;
}[] = [
  { name: "ky", get: (url, headers) => ky(url, { headers }).json() },
  { name: "got", get: (url, headers) => got(url, { headers }).json() },
  {
    name: "axios with axios-retry",
    get: async (url, headers) => {
      const client = axios.create();
      axiosRetry(client);
      const { data } = await client.get<Served>(url.href, { headers });
      return data;
    },
  },
  {
    name: "undici's RetryAgent",
    get: async (url, headers) => {
      const dispatcher = new RetryAgent(new Agent());
      const { body } = await request(url, { headers, dispatcher });
      const answer = (await body.json()) as Served;
      await dispatcher.close();
      return answer;
    },
  },
];

/** This client is a Debian package. */
const hasUrllib3 = spawnSync("python3", ["-c", "import urllib3"]).status === 0;
if (hasUrllib3) clients.push({ name: "urllib3", get: askedByUrllib3 });
else console.warn("urllib3 is not tried: there is none for python3 here");

async function askedByUrllib3(url: URL, headers: Record<string, string>): Promise<Served> {
  const code = `import json, sys, urllib3
answer = urllib3.PoolManager().request("GET", sys.argv[1], headers=json.loads(sys.argv[2]))
sys.stdout.buffer.write(answer.data)`;
  const words = ["-c", code, url.href, JSON.stringify(headers)];
  const { stdout } = await promisify(execFile)("python3", words);
  return JSON.parse(stdout) as Served;
}

const folder = mkdtempSync(join(tmpdir(), "headgate-clients-"));
let workerd: Workerd;

beforeAll(async () => {
  // Longer than each client's default delay before its first retry.
  const limits = '{ "limit": 1, "window": "2s", "strategy": "fixed-window" }';
  const vars = { LIMITS: limits, KEY: "header:X-Api-Key" };
  workerd = await startWorkerd(folder, vars, { entry: listing, origin: counting });
  return workerd.close;
});

afterAll(() => rmSync(folder, { recursive: true }));

describe.concurrent("retries of HTTP clients", () => {
  it.for(clients)(
    "R13: a denied client waits for Retry-After and succeeds at its first retry: $name",
    async ({ name, get }, { expect }) => {
      const headers = { "X-Api-Key": name };
      expect((await fetch(workerd.url, { headers })).status).toBe(200);
      // The origin has received the first request and one retry.
      expect(await get(workerd.url, headers)).toEqual({ served: 2 });
      const recordedResponses = await (await fetch(workerd.url)).json<Record<string, RecordedResponse[]>>();
      const [spent, refused, retried, ...others] = recordedResponses[name] ?? [];
      expect([spent?.status, refused?.status, retried?.status]).toEqual([200, 429, 200]);
      expect(others).toEqual([]);
      expect(refused?.retryAfter).toMatch(/^[12]$/);
      const waitedMs = (retried?.atMs ?? 0) - (refused?.atMs ?? 0);
      // Timers and clocks are each rounded to a millisecond.
      expect(waitedMs).toBeGreaterThanOrEqual(Number(refused?.retryAfter) * 1_000 - 2);
    },
  );
});
