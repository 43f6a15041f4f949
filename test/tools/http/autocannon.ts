/** Load by autocannon, for machines without wrk. As a JavaScript program, autocannon needs its own processor core. */
import { createRequire } from "node:module";
import autocannon from "autocannon";
import { type Generator, idIn, idMark, keyMark, keyText, type HttpLoad, type MeasuredResponses } from "./load.ts";
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
      // autocannon checks at this interval whether it must end, in milliseconds.
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

function requestOf({ url, method, fields, body, keys, followUp }: HttpLoad): autocannon.Request {
  let sentRequests = 0;
  const ids: string[] = [];
  const fixed = { method, path: `${url.pathname}${url.search}` };
  const marked = (key: string): Record<string, string> =>
    Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, value.replace(keyMark, key)]));
  return {
    ...fixed,
    setupRequest: (request) => {
      const id = ids.pop();
      if (followUp !== undefined && id !== undefined) {
        const { path } = followUp;
        return {
          ...request,
          method,
          path,
          headers: marked(""),
          body: followUp.body.replace(idMark, id),
        };
      }
      const key = keyText(keys.first + (sentRequests++ % keys.count));
      return {
        ...request,
        ...fixed,
        headers: marked(key),
        ...(body !== "" && { body: body.replace(keyMark, key) }),
      };
    },
    ...(followUp !== undefined && {
      onResponse: (_status, text) => {
        const id = idIn(text);
        if (id !== undefined) ids.push(id);
      },
    }),
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
