/** Reads the samples of a policy in the web worker, as they arrive. */
import { LineSplitter } from "../../../advisor/log/splitter.ts";
import { type Samples, SamplesProblem, SamplesReader } from "../../../advisor/replay/read-samples.ts";
import { ApiProblem, problemIn } from "../api/client.ts";
import type { ReplayTasks } from "./messages.ts";
import type { ReadSamples } from "./worker-tasks.ts";

/** The most characters of a line. A line contains all arrivals of one key, which may be most of the traffic. */
const longestLine = 67_108_864;

/**
 * @throws ApiProblem when the call is refused, or with status 0 when the connection is lost
 * @throws SamplesProblem for lines that are no samples
 */
export async function readSamples(
  { policy, url, token, nowMs }: ReplayTasks["load"]["request"],
  onProgress: (share: number) => void,
  abort: AbortSignal,
): Promise<ReadSamples> {
  const response = await called(url, token, abort);
  const { header, ...read } = await readLines(response, onProgress);
  const { sample, coverage, storedAtMs } = header;
  const { keys, atMs, source } = read.timelines;
  const counts = { keys: keys.length, arrivals: atMs.length };
  return { known: { policy, readAtMs: nowMs, sample, coverage, storedAtMs, ...counts, source }, ...read };
}

async function called(url: string, token: string | null, abort: AbortSignal): Promise<Response> {
  const headers = new Headers(token === null ? {} : { Authorization: `Bearer ${token}` });
  const options = { headers, cache: "no-store", redirect: "manual", signal: abort } as const;
  const response = await lostAs0(fetch(url, options));
  if (response.ok) return response;
  throw problemIn(response, await lostAs0(response.text()));
}

async function readLines({ body }: Response, onProgress: (share: number) => void): Promise<Samples> {
  const reader = new SamplesReader();
  const splitter = new LineSplitter(
    {
      addLine: (line) => reader.line(line),
      skipLine: (reason) => {
        throw new SamplesProblem(reason);
      },
    },
    longestLine,
  );
  const chunks = body?.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    // oxlint-disable-next-line no-await-in-loop -- chunks arrive one after the other
    const chunk = await lostAs0(chunks?.read() ?? Promise.resolve({ done: true, value: "" }));
    if (chunk.done) break;
    splitter.add(chunk.value ?? "");
    onProgress(reader.share);
  }
  splitter.end();
  return reader.finish();
}

/** A connection that ends early is a lost one. */
async function lostAs0<Value>(value: Promise<Value>): Promise<Value> {
  try {
    return await value;
  } catch {
    throw new ApiProblem({ status: 0, detail: "The Worker cannot be reached." });
  }
}
