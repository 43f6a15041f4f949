/** Load by autocannon, where wrk is not installed. As a JavaScript program it needs a processor of its own. */
import { createRequire } from "node:module";
import autocannon from "autocannon";
import { type Generator, keyMark, keyText, type HttpLoad, type MeasuredResponses } from "./load.ts";
import { quantile } from "./statistics.ts";

const { version } = createRequire(import.meta.url)("autocannon/package.json") as {
  version: string;
};

export const byAutocannon: Generator = {
  title: `autocannon ${version}`,
  fire: async (load) => {
    const timesMs: number[] = [];
    const result = await autocannon({
      url: load.url.href,
      connections: load.connections,
      duration: load.seconds,
      // autocannon checks for its end at this interval, in milliseconds.
      sampleInt: 50,
      timeout: 30,
      requests: [requestOf(load)],
      // autocannon's own histogram has whole milliseconds.
      setupClient: (client) => {
        client.on("response", (_status, _bytes, timeMs) => timesMs.push(timeMs));
      },
    });
    return measuredOf(result, timesMs);
  },
};

function requestOf({ url, method, fields, body, keys }: HttpLoad): autocannon.Request {
  let sentRequests = 0;
  const fixed = { method, path: `${url.pathname}${url.search}` };
  return {
    ...fixed,
    setupRequest: (request) => {
      const key = keyText(keys.first + (sentRequests++ % keys.count));
      const marked = Object.entries(fields).map(([name, value]) => [
        name,
        value.replace(keyMark, key),
      ]);
      return {
        ...request,
        ...fixed,
        headers: Object.fromEntries(marked) as Record<string, string>,
        ...(body !== "" && { body: body.replace(keyMark, key) }),
      };
    },
  };
}

export type Result = Pick<autocannon.Result, "errors" | "duration" | "statusCodeStats">;

export function measuredOf(result: Result, timesMs: readonly number[]): MeasuredResponses {
  const statuses = Object.fromEntries(
    Object.entries(result.statusCodeStats ?? {}).map(([status, { count = 0 }]) => [status, count]),
  );
  return {
    requests: Object.values(statuses).reduce((total, count) => total + count, 0),
    seconds: result.duration,
    statuses,
    errors: result.errors,
    p50Ms: quantile(timesMs, 0.5),
    p99Ms: quantile(timesMs, 0.99),
  };
}
